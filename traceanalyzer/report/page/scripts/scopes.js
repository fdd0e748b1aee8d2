// Looking into the picture of name scopes: a click or Enter makes a scope as wide as the picture.

const scopePicture = (() => {
  const ROW = 28;
  const LEVELS = 9;
  const CHARACTER = 7.6; // the width of one, in pixels
  const REACHED = 24; // what is narrower is too small to be pointed at, and no stop for keys
  let figure, live, crumbs, picture, reading;
  let nodes, below, focus;
  let boxes = []; // of the present picture: { node, x, width, level, element }

  // Shapes in the name space of those that are there.
  function shape(tag, attributes, ...children) {
    const space = figure.querySelector("svg").namespaceURI;
    const element = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function read(table) {
    const { parent, name, kind, cpu_us: cpu, device_us: device, launch_us: launch, ops } =
      table.columns;
    nodes = Array.from({ length: table.rows }, (_, row) => ({
      row,
      parent: parent.at(row) < row ? parent.at(row) : null, // none is null, which is less
      name: name.at(row),
      kind: kind.at(row),
      cpu: cpu.at(row) ?? 0,
      device: device.at(row) ?? 0,
      launch: launch.at(row) ?? 0,
      ops: ops.at(row) ?? 0,
    }));
    below = new Map([[null, []]]);
    for (const node of nodes) {
      below.set(node.row, []);
      below.get(node.parent)?.push(node);
    }
  }

  const took = (node) => node.cpu + node.device;
  const children = (row) => below.get(row) ?? [];
  const wholeTime = () => children(null).reduce((sum, node) => sum + took(node), 0);

  function path(row) {
    const found = [];
    for (let at = row; at !== null && nodes[at]; at = nodes[at].parent) found.unshift(nodes[at]);
    return found;
  }

  function tell(node) {
    const parts = [quantity(shareParts(Math.min(1, took(node) / wholeTime())))];
    const say = (us) => quantity(durationParts(us));
    if (node.cpu) parts.push(`${say(node.cpu)} on the CPU`);
    if (node.device) parts.push(`${say(node.device)} on devices`);
    if (node.launch) parts.push(`${say(node.launch)} of kernel launches`);
    parts.push(node.ops === 1 ? "1 op" : `${countText(node.ops)} ops`);
    return `${cutName(path(node.row).map((n) => n.name).join("/"), 200)}: ${parts.join(", ")}`;
  }

  function layout(width) {
    boxes = [];
    const tops = focus === null ? children(null) : [nodes[focus]];
    const whole = tops.reduce((sum, node) => sum + took(node), 0);
    const place = (list, left, level) => {
      let x = left;
      for (const node of list) {
        const wide = (width * took(node)) / whole;
        if (wide >= 1.5) {
          boxes.push({ node, x, width: wide, level });
          if (level + 1 < LEVELS) place(children(node.row), x, level + 1);
        }
        x += wide;
      }
    };
    if (whole > 0) place(tops, 0, 0);
  }

  function draw(kept) {
    const width = Math.max(200, live.clientWidth);
    layout(width);
    const rows = Math.max(1, ...boxes.map((box) => box.level + 1));
    picture.setAttribute("width", width);
    picture.setAttribute("height", rows * ROW);
    picture.replaceChildren(...boxes.map(drawBox));
    const stops = boxes.filter((box) => box.width >= REACHED);
    const first = stops.find((box) => box.node.row === kept) ?? stops[0];
    if (first) first.element.setAttribute("tabindex", "0");
    crumbs.replaceChildren(...drawCrumbs());
  }

  function drawBox(box) {
    const { node, x, width, level } = box;
    const share = node.cpu / (took(node) || 1);
    const side = share > 0.98 ? "cpu" : share < 0.02 ? "device" : "mixed";
    const inner = Math.max(width - 1, 1);
    const at = { x: x.toFixed(2), y: level * ROW, height: ROW - 1 };
    const parts = [shape("rect", { class: `side ${side}`, ...at, width: inner.toFixed(2) })];
    if (side === "mixed") {
      const line = { x: at.x, y: level * ROW + 21, height: 6 };
      parts.push(
        shape("rect", { class: "side device", ...line, width: inner.toFixed(2) }),
        shape("rect", { class: "side cpu strong", ...line, width: (inner * share).toFixed(2) }),
      );
    }
    const room = Math.floor((width - 12) / CHARACTER);
    const words = room > 0 ? cutName(node.name, room) : "";
    if (words && (room >= 8 || words === visible(node.name))) {
      parts.push(shape("text", { x: (x + 5).toFixed(2), y: level * ROW + 17 }, words));
    }
    const reach = width >= REACHED ? { tabindex: "-1", role: "button", "aria-label": tell(node) } : {};
    box.element = shape("g", { "data-row": node.row, ...reach }, ...parts);
    return box.element;
  }

  function drawCrumbs() {
    const found = focus === null ? [] : path(focus);
    const all = makeButton("All scopes", () => look(null), { disabled: focus === null });
    return [all, ...found.flatMap((node, index) => {
      const isLast = index === found.length - 1;
      const label = cutName(node.name, 32);
      const step = isLast
        ? make("bdi", { class: "name", title: wholeName(node.name, label) }, label)
        : makeButton(label, () => look(node.row), { title: wholeName(node.name, label) });
      return [make("span", { "aria-hidden": "true" }, "›"), step];
    })];
  }

  /** Makes a scope as wide as the picture; null for all of them. */
  function look(row, { remember = true, kept = row } = {}) {
    const had = live.contains(document.activeElement);
    focus = row !== null && nodes[row] && took(nodes[row]) > 0 ? row : null;
    draw(kept);
    if (remember) state.set("time.scope", focus === null ? null : String(focus));
    reading.textContent = focus === null ? hint() : tell(nodes[focus]);
    if (had) {
      picture.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
      announce(focus === null ? "All scopes" : tell(nodes[focus]));
    }
  }

  const hint = () => "Point at a box to read it.";
  const boxOf = (target) => {
    const element = target instanceof Element ? target.closest("g[data-row]") : null;
    return element ? boxes.find((box) => box.element === element) : undefined;
  };

  function reach(box) {
    if (!box) return;
    picture.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    box.element.setAttribute("tabindex", "0");
    box.element.focus();
  }

  function walk(event) {
    const from = boxOf(event.target);
    if (!from) return;
    const stops = boxes.filter((box) => box.width >= REACHED);
    const beside = stops.filter((box) => box.level === from.level).sort((a, b) => a.x - b.x);
    const index = beside.indexOf(from);
    const inside = (outer, inner) => inner.x >= outer.x - 0.5 && inner.x < outer.x + outer.width;
    reach({
      ArrowRight: () => beside[index + 1],
      ArrowLeft: () => beside[index - 1],
      ArrowDown: () => stops.find((b) => b.level === from.level + 1 && inside(from, b)),
      ArrowUp: () => stops.find((b) => b.level === from.level - 1 && inside(b, from)),
    }[event.key]());
  }

  function up() {
    if (focus !== null) look(nodes[focus].parent, { kept: focus });
  }

  function build() {
    crumbs = make("nav", { class: "crumbs", "aria-label": "The scope that is looked into" });
    picture = shape("svg", {
      class: "icicle", role: "group", "aria-label": "Time by name scope: choose a scope to look into it",
    });
    reading = make("p", { class: "reading" }, hint());
    live = make("div", { class: "live" }, crumbs, picture, reading);
    figure.querySelector(".still").before(live);
    figure.classList.add("charted");
    picture.addEventListener("click", (event) => {
      const box = boxOf(event.target);
      if (box) look(box.node.row);
    });
    const met = (event) => {
      const box = boxOf(event.target);
      if (box) reading.textContent = tell(box.node);
    };
    picture.addEventListener("pointerover", met);
    picture.addEventListener("focusin", met);
    const within = (target) => picture.contains(target);
    keys.add("Enter", "In the picture of scopes: look into the scope", (event) => {
      const box = boxOf(event.target);
      if (box) look(box.node.row);
    }, within);
    keys.add("u", "In the picture of scopes: one scope further out", up, (t) => figure.contains(t));
    keys.add("Escape", "In the picture of scopes: one scope further out", up,
      (t) => figure.contains(t));
    for (const arrow of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]) {
      keys.add(arrow, "In the picture of scopes: the box on that side", walk, within);
    }
    new ResizeObserver(() => {
      if (Math.abs(live.clientWidth - Number(picture.getAttribute("width"))) > 0.5) {
        draw(Number(picture.querySelector("[tabindex='0']")?.dataset.row ?? -1));
      }
    }).observe(live);
  }

  const asked = () => {
    const given = state.get("time.scope") ?? "";
    return /^\d+$/.test(given) && nodes[given] ? Number(given) : null;
  };

  return {
    async start() {
      figure = document.getElementById("scopes");
      const table = figure && (await packedTable("scopes"));
      if (!table) return;
      read(table);
      build();
      look(asked(), { remember: false });
      state.watch("time.scope", () => look(asked(), { remember: false }));
    },
  };
})();

begin(() => {
  scopePicture.start().catch(console.error);
});
