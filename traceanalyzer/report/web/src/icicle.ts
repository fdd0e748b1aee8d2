// A tree whose nodes are as wide as their value. A click, or Enter, looks into a node.

import { hierarchy, type HierarchyRectangularNode, partition } from "d3-hierarchy";
import type { Icicle, IcicleNode } from "./blocks";
import { button, make, shape } from "./dom";
import { drawer } from "./figures";
import { cut, quantity, share } from "./format";
import { state } from "./state";

const ROW = 26;
const LEVELS = 9;
const LETTER = 7.2;
const REACHABLE = 24; // pixels: narrower nodes are no stop for keys

interface Tree {
  node: IcicleNode | null; // null for the root of all
  place: number;
  children: Tree[];
}

/** Returns the tree of the nodes. */
export function treeOf(nodes: IcicleNode[]): Tree {
  const root: Tree = { node: null, place: -1, children: [] };
  const made: Tree[] = [];
  for (const [place, node] of nodes.entries()) {
    made.push({ node, place, children: [] });
    (made[node.parent] ?? root).children.push(made[place]);
  }
  return root;
}

class IcicleView {
  private measure = 0;
  private focus = -1;
  private readonly trail = make("p", { class: "trail" });
  private readonly picture = make("div", { class: "picture" });
  private readonly reading = make("p", { class: "quiet small", "aria-live": "polite" });
  private readonly root: Tree;

  constructor(figure: HTMLElement, private readonly block: Icicle) {
    this.root = treeOf(block.nodes);
    const choice = make("div", { class: "choice", role: "group", "aria-label": "Measure" });
    const buttons = block.measures.map(([name], at) => button(name, () => {
      this.measure = at;
      buttons.forEach((one, k) => one.setAttribute("aria-pressed", String(k === at)));
      this.draw();
    }, { "aria-pressed": at === 0 }));
    if (buttons.length > 1) choice.append(...buttons);
    figure.append(choice, this.trail, this.picture, this.reading);
    let width = 0;
    new ResizeObserver(() => {
      if (this.picture.clientWidth === width || !this.picture.clientWidth) return;
      width = this.picture.clientWidth;
      this.draw();
    }).observe(this.picture);
    state.watch("op", () => this.draw());
  }

  private value = (tree: Tree): number => tree.node?.values[this.measure] ?? 0;

  private find(tree: Tree): Tree | null {
    if (tree.place === this.focus) return tree;
    for (const child of tree.children) {
      const found = this.find(child);
      if (found) return found;
    }
    return null;
  }

  private draw(): void {
    const width = this.picture.clientWidth;
    if (!width) return;
    const top = this.find(this.root) ?? this.root;
    // What is below a node adds up to less than the node if it has values of its own.
    const tree = hierarchy<Tree>(top, (one) => one.children)
      .sum(() => 0)
      .each((one) => {
        (one as { value: number }).value = one.data.node ? this.value(one.data)
          : one.data.children.reduce((sum, child) => sum + this.value(child), 0);
      })
      .sort((a, b) => b.value! - a.value!);
    const levels = Math.min(LEVELS, tree.height + 1);
    const placed = partition<Tree>().size([width, (tree.height + 1) * ROW])(tree);
    const skip = placed.data.node ? 0 : 1; // the root of all is not drawn
    const shown = placed.descendants()
      .filter((one) => one.depth >= skip && one.depth < levels + skip && one.x1 - one.x0 >= 1.5);
    const height = ROW * (Math.max(skip, ...shown.map((one) => one.depth)) + 1 - skip);
    const picture = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    picture.append(...shown.map((one) => this.box(one, skip, placed.value ?? 0)));
    this.picture.replaceChildren(picture);
    this.trail.replaceChildren(...this.trailOf(top));
  }

  private box(one: HierarchyRectangularNode<Tree>, skip: number, whole: number): SVGElement {
    const node = one.data.node!;
    const width = one.x1 - one.x0;
    const y = (one.depth - skip) * ROW;
    const letters = Math.floor((width - 10) / LETTER);
    const parts = [shape("rect", { x: one.x0, y, width: Math.max(1, width - 1), height: ROW - 1 })];
    if (letters > 5 || letters >= node.label.length) {
      parts.push(shape("text", { x: one.x0 + 5, y: y + 17 }, cut(node.label, letters)));
    }
    const said = this.said(one, whole);
    const isReachable = width >= REACHABLE;
    const group = shape("g", {
      class: `${node.kind}${node.op_id && node.op_id === state.get("op") ? " selected" : ""}`,
      ...(isReachable ? { tabindex: 0, role: "button", "aria-label": said } : {}),
    }, ...parts);
    const open = (): void => {
      if (node.op_id) state.follow(`op-${node.op_id}`);
      else if (one.data.children.length) {
        this.focus = one.data.place;
        this.draw();
      }
    };
    const tell = (): void => void (this.reading.textContent = said);
    group.addEventListener("click", open);
    group.addEventListener("pointerenter", tell);
    group.addEventListener("focus", tell);
    group.addEventListener("keydown", (event) => {
      if ((event as KeyboardEvent).key === "Enter") open();
    });
    return group;
  }

  private said(one: HierarchyRectangularNode<Tree>, whole: number): string {
    const path = one.ancestors().reverse().flatMap(({ data }) => (data.node ? [data.node.label] : []));
    const values = this.block.measures.map(([name, unit], at) =>
      `${name} ${quantity(one.data.node!.values[at], unit)}`);
    const part = whole ? `, ${share(Math.min(1, one.value! / whole))} of what is shown` : "";
    return `${cut(path.join("/"), 160)}: ${values.join(", ")}${part}`;
  }

  private trailOf(top: Tree): Node[] {
    const path: IcicleNode[] = [];
    for (let node = top.node; node; node = this.block.nodes[node.parent] ?? null) path.unshift(node);
    const places = path.map((node) => this.block.nodes.indexOf(node));
    const step = (label: string, place: number): HTMLElement => button(label, () => {
      this.focus = place;
      this.draw();
    }, { disabled: place === top.place });
    return [step("All", -1), ...path.map((node, at) => step(cut(node.label, 40), places[at]))];
  }
}

export function beginIcicles(): void {
  drawer<Icicle>("icicle", (figure, block) => {
    if (block.nodes.length) new IcicleView(figure, block);
  });
}
