// Transfers between ops as a picture of flows, as wide as their bytes.

import { sankey, sankeyLinkHorizontal } from "d3-sankey";
import type { Flow, Flows, FlowNode } from "./blocks";
import { make, shape } from "./dom";
import { drawer } from "./figures";
import { counted, cut, duration, size } from "./format";
import { state } from "./state";

const MOST = 40; // flows that are drawn
const ROW = 26; // pixels for each node of the fullest column, at least
const NODE = 12;
const LEAST = 620; // pixels: the picture scrolls in narrower windows

interface Node extends FlowNode {
  place: number; // index of the block's node
}

interface Link {
  source: number;
  target: number;
  value: number;
  flow: Flow;
}

/**
 * Returns the nodes and links of a picture without circles: a flow that would lead back ends in a
 * node of its own.
 */
export function withoutCircles(block: Pick<Flows, "nodes" | "flows">): { nodes: Node[]; links: Link[] } {
  const flows = block.flows.slice(0, MOST);
  const nodes: Node[] = [];
  const links: Link[] = [];
  const places = new Map<string, number>();
  const after = new Map<number, Set<number>>();
  const at = (place: number, again = ""): number => {
    const key = `${place}${again}`;
    if (!places.has(key)) {
      places.set(key, nodes.length);
      nodes.push({ ...block.nodes[place], place });
    }
    return places.get(key)!;
  };
  const leads = (from: number, to: number): boolean => from === to
    || [...(after.get(from) ?? [])].some((next) => leads(next, to));
  for (const flow of flows) {
    const source = at(flow.source);
    let target = at(flow.target);
    if (leads(target, source)) target = at(flow.target, " again");
    after.set(source, (after.get(source) ?? new Set()).add(target));
    links.push({ source, target, value: Math.max(1, flow.bytes ?? 1), flow });
  }
  // A node that only a flow back led to is not drawn.
  const used = new Set(links.flatMap((link) => [link.source, link.target]));
  const kept = [...nodes.keys()].filter((node) => used.has(node));
  return {
    nodes: kept.map((node) => nodes[node]),
    links: links.map((link) => ({
      ...link, source: kept.indexOf(link.source), target: kept.indexOf(link.target),
    })),
  };
}

function draw(box: HTMLElement, block: Flows): void {
  const graph = withoutCircles(block);
  const width = Math.max(LEAST, box.clientWidth);
  const sides = Math.max(
    new Set(graph.links.map((link) => link.source)).size,
    new Set(graph.links.map((link) => link.target)).size,
  );
  const height = Math.max(120, sides * ROW);
  // The least flow is still seen.
  const most = Math.max(...graph.links.map((link) => link.value));
  const links = graph.links.map((link) => ({ ...link, value: Math.max(link.value, most / 60) }));
  const layout = sankey<Node, Link>().nodeWidth(NODE).nodePadding(14)
    .extent([[0, 8], [width, height - 8]])({ nodes: graph.nodes.map((n) => ({ ...n })), links });
  const picture = shape("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `Transfers between ops: ${counted(graph.links.length, "flow")}, listed in the table above`,
  });
  const path = sankeyLinkHorizontal<Node, Link>();
  const selected = state.get("op");
  for (const link of layout.links) {
    const [source, target] = [link.source as unknown as Node, link.target as unknown as Node];
    const isSelected = selected !== null && (source.op_id === selected || target.op_id === selected);
    picture.append(shape("path", {
      d: path(link), class: isSelected ? "flow selected" : "flow",
      "stroke-width": Math.max(1, link.width ?? 1),
    }, shape("title", {}, described(source, target, link.flow))));
  }
  for (const node of layout.nodes) {
    const [x0, x1, y0, y1] = [node.x0!, node.x1!, node.y0!, node.y1!];
    const isRight = x0 > width / 2;
    const letters = Math.floor(width / 2 / 7) - 6;
    const text = shape("text", {
      x: isRight ? x0 - 6 : x1 + 6, y: (y0 + y1) / 2, dy: "0.35em", "text-anchor": isRight ? "end" : "start",
    }, cut(node.label, Math.min(44, letters)), " ", shape("tspan", { class: "memory" }, node.memory));
    const rect = shape("rect", {
      x: x0, y: y0, width: x1 - x0, height: Math.max(1, y1 - y0),
      class: node.memory === "host" ? "host" : "gpu",
    }, shape("title", {}, `${cut(node.label, 400)}, ${node.memory}`));
    const group = shape("g", { class: node.op_id ? "node op" : "node" }, rect, text);
    if (node.op_id) group.addEventListener("click", () => state.follow(`op-${node.op_id}`));
    picture.append(group);
  }
  box.replaceChildren(picture);
}

function described(source: FlowNode, target: FlowNode, flow: Flow): string {
  const parts = [
    flow.bytes === null ? "unknown bytes" : size(flow.bytes),
    counted(flow.count, "transfer"),
    ...(flow.gpu_wait_us ? [`GPU wait ${duration(flow.gpu_wait_us)}`] : []),
  ];
  return `${cut(source.label, 80)} → ${cut(target.label, 80)}: ${parts.join(", ")}`;
}

export function beginFlows(): void {
  drawer<Flows>("flows", (figure, block) => {
    if (!block.flows.length) return;
    const box = make("div", { class: "picture", tabindex: 0, role: "group", "aria-label": "Flows" });
    figure.append(box);
    let width = 0;
    new ResizeObserver(() => {
      if (box.clientWidth === width || !box.clientWidth) return;
      width = box.clientWidth;
      draw(box, block);
    }).observe(box);
    state.watch("op", () => draw(box, block));
  });
}
