// The flame graph: drawn on a canvas, navigable by keyboard as a tree.

const ROW = 22;

class Flame {
  /** Calls `on.zoom(node)` and `on.choose(node)` for the user's actions. */
  constructor(on) {
    this.on = on;
    this.box = byID("flame");
    this.canvas = byID("flame-canvas");
    this.items = [byID("flame-item-0"), byID("flame-item-1")];
    this.shownItem = 0;
    this.zoomed = 0;
    this.current = 0;
    this.hovered = -1;
    this.box.addEventListener("scroll", () => this.draw());
    this.box.addEventListener("pointermove", (event) => this.hover(event));
    this.box.addEventListener("pointerleave", () => this.hover(null));
    this.box.addEventListener("click", (event) => this.click(event));
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("focus", () => this.walkTo(this.current));
    this.box.addEventListener("blur", () => this.draw());
  }

  show(profile, tree, unit, culprit) {
    Object.assign(this, { profile, tree, unit, culprit, zoomed: 0, current: 0, hovered: -1 });
    this.box.scrollTop = 0;
    this.layOut();
  }

  mark(found) {
    this.found = found;
    this.draw();
  }

  zoom(node) {
    this.zoomed = node;
    this.current = node;
    // Keeps two rows of callers visible.
    this.layOut();
    const top = this.tree.depth[node] * ROW;
    if (top < this.box.scrollTop || top > this.box.scrollTop + this.box.clientHeight - 3 * ROW) {
      this.box.scrollTop = Math.max(0, top - 2 * ROW);
    }
    this.draw();
  }

  /** Sets the height to the number of visible rows and draws the graph. */
  layOut() {
    const { tree } = this;
    if (!tree || this.box.clientWidth === 0) return;
    let deepest = tree.depth[this.zoomed];
    const least = tree.total[this.zoomed] / Math.max(200, this.box.clientWidth) / 2;
    const pending = [this.zoomed];
    while (pending.length > 0) {
      const node = pending.pop();
      if (tree.depth[node] > deepest) deepest = tree.depth[node];
      for (const child of tree.children(node)) if (tree.total[child] >= least) pending.push(child);
    }
    byID("flame-space").style.height = `${(deepest + 1) * ROW + 2}px`;
    this.draw();
  }

  draw() {
    const { tree, profile } = this;
    const width = this.box.clientWidth;
    const height = Math.min(this.box.clientHeight, byID("flame-space").offsetHeight);
    if (!tree || width === 0) return;
    const context = sizedCanvas(this.canvas, width, height);
    context.font = themeColour("graph-font");
    context.textBaseline = "middle";
    const colours = {};
    for (const name of [...Object.keys(OWNERS), "all"]) colours[name] = themeColour(`fill-${name}`);
    const ink = themeColour("graph-ink");
    const dimmed = themeColour("fill-dimmed");
    const dimmedInk = themeColour("dimmed-ink");
    const edge = themeColour("paper");
    const focus = themeColour("focus");
    const first = Math.floor(this.box.scrollTop / ROW);
    const last = Math.ceil((this.box.scrollTop + height) / ROW);
    this.boxes = [];
    const box = (node, left, wide) => {
      const depth = tree.depth[node];
      if (depth < first || depth > last) return;
      const top = depth * ROW - this.box.scrollTop;
      const name = tree.function[node];
      const isFound = !this.found || (name >= 0 && this.found[name]);
      const owner = node === 0 ? "all" : name >= 0 && profile.names[name] === this.culprit ? "culprit" : ownerOf(profile, tree, node);
      context.fillStyle = isFound ? colours[owner] : dimmed;
      const gap = wide > 3 ? 1 : 0;
      context.fillRect(left, top, wide - gap, ROW - 1);
      if (node === this.hovered || (node === this.current && document.activeElement === this.box)) {
        context.strokeStyle = focus;
        context.lineWidth = 2;
        context.strokeRect(left + 1, top + 1, Math.max(1, wide - gap - 2), ROW - 3);
      }
      if (wide > 30) {
        context.fillStyle = isFound ? ink : dimmedInk;
        const text = node === 0 ? `all, ${amount(tree.total[0], this.unit)}` : nameOf(profile, tree, node);
        context.fillText(fittedText(context, text, wide - 10), left + 5, top + ROW / 2);
      }
      this.boxes.push({ node, left, wide, depth });
    };
    context.fillStyle = edge;
    for (let above = tree.parent[this.zoomed]; above >= 0; above = tree.parent[above]) box(above, 0, width);
    const whole = tree.total[this.zoomed] || 1;
    const pending = [[this.zoomed, 0, width]];
    while (pending.length > 0) {
      const [node, left, wide] = pending.pop();
      box(node, left, wide);
      if (tree.depth[node] >= last) continue;
      let at = left;
      for (const child of tree.children(node)) {
        const childWide = (tree.total[child] / whole) * width;
        // Children sorted by total: all further ones are narrower still.
        if (childWide < 0.5 && !tree.isByTime) break;
        if (childWide >= 0.5) pending.push([child, at, childWide]);
        at += childWide;
      }
    }
  }

  nodeAt(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const x = event.clientX - bounds.left;
    const depth = Math.floor((event.clientY - bounds.top + this.box.scrollTop) / ROW);
    const found = (this.boxes ?? []).find((box) => box.depth === depth && x >= box.left && x < box.left + box.wide);
    return found ? found.node : -1;
  }

  hover(event) {
    const node = event ? this.nodeAt(event) : -1;
    this.box.style.cursor = node >= 0 ? "pointer" : "default";
    showHint(event, node >= 0 ? this.lines(node) : []);
    if (node === this.hovered) return;
    this.hovered = node;
    this.draw();
  }

  /** Returns the description of a node: name, time and location. */
  lines(node) {
    const { tree, profile, unit } = this;
    const whole = tree.total[0] || 1;
    const part = `${percent(tree.total[node] / whole)}, ${amount(tree.total[node], unit)}`;
    const own = tree.self[node] > 0 && tree.children(node).length > 0 ? `; itself ${amount(tree.self[node], unit)}` : "";
    const lines = [nameOf(profile, tree, node), part + own];
    if (tree.frame[node] >= 0) lines.push([placeOf(profile, tree.frame[node]), OWNERS[ownerOf(profile, tree, node)]].filter((part) => part).join(", "));
    return lines;
  }

  click(event) {
    const node = this.nodeAt(event);
    if (node < 0) return;
    this.walkTo(node);
    this.on.zoom(node);
  }

  /** Makes `node` current for the keyboard and announces it to screen readers. */
  walkTo(node) {
    const { tree } = this;
    if (!tree) return;
    this.current = node;
    const top = tree.depth[node] * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    if (top + ROW > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW - this.box.clientHeight;
    const siblings = node === 0 ? [0] : [...tree.children(tree.parent[node])];
    // The two elements alternate because some screen readers do not announce changes of an element.
    this.shownItem = 1 - this.shownItem;
    const item = this.items[this.shownItem];
    item.textContent = this.lines(node).join(", ");
    item.setAttribute("aria-level", tree.depth[node] + 1);
    item.setAttribute("aria-posinset", siblings.indexOf(node) + 1);
    item.setAttribute("aria-setsize", siblings.length);
    if (tree.children(node).length > 0) item.setAttribute("aria-expanded", "true");
    else item.removeAttribute("aria-expanded");
    this.box.setAttribute("aria-activedescendant", item.id);
    this.draw();
  }

  key(event) {
    const { tree } = this;
    if (!tree || event.ctrlKey || event.altKey || event.metaKey) return;
    const node = this.current;
    const siblings = node === 0 ? [0] : [...tree.children(tree.parent[node])];
    const at = siblings.indexOf(node);
    let to = -1;
    switch (event.key) {
      case "ArrowUp": to = tree.parent[node]; break;
      case "ArrowDown": to = tree.children(node)[0] ?? -1; break;
      case "ArrowRight": to = siblings[at + 1] ?? -1; break;
      case "ArrowLeft": to = siblings[at - 1] ?? -1; break;
      case "Home": to = this.zoomed; break;
      case "Enter":
      case " ": this.on.zoom(node); break;
      case "Backspace":
      case "Escape": this.on.zoom(Math.max(0, tree.parent[this.zoomed])); break;
      default: return;
    }
    event.preventDefault();
    if (to < 0) return;
    // Nodes outside the zoomed part are invisible.
    let inside = to;
    while (inside > this.zoomed) inside = tree.parent[inside];
    if (inside !== this.zoomed && tree.depth[to] > tree.depth[this.zoomed]) return;
    if (inside !== this.zoomed && tree.depth[to] === tree.depth[this.zoomed]) this.on.zoom(to);
    this.walkTo(to);
  }

  /** Returns the node of the heaviest found function, to which a search leads; -1 if none was found. */
  heaviestFound() {
    const { tree, found } = this;
    if (!tree || !found) return -1;
    let best = -1;
    for (let node = 1; node < tree.parent.length; node++) {
      const name = tree.function[node];
      if (name >= 0 && found[name] && (best < 0 || tree.total[node] > tree.total[best])) best = node;
    }
    return best;
  }
}

/** Shows `lines` next to the pointer; hides the hint if there are none. */
function showHint(event, lines) {
  const hint = byID("hint");
  hint.hidden = !event || lines.length === 0;
  if (hint.hidden) return;
  hint.replaceChildren(...lines.map((line, number) => element(number === 0 ? "b" : "span", { text: line })));
  const { clientX, clientY } = event;
  const [wide, high] = [hint.offsetWidth, hint.offsetHeight];
  hint.style.left = `${Math.max(4, Math.min(clientX + 14, window.innerWidth - wide - 8))}px`;
  hint.style.top = `${clientY + 18 + high > window.innerHeight ? clientY - high - 10 : clientY + 18}px`;
}
