// The call tree and the functions as text: a tree with expandable branches, and a table.

/** Maximum number of rows created at a time. */
const ROWS = 200;

/** A call tree for keyboards and screen readers (the "tree view" pattern of ARIA). */
class CallTreeView {
  constructor(on) {
    this.on = on;
    this.box = byID("tree");
    this.box.addEventListener("click", (event) => this.click(event));
    this.box.addEventListener("keydown", (event) => this.key(event));
  }

  show(profile, tree, unit, culprit, found) {
    Object.assign(this, { profile, tree, unit, culprit, found });
    const list = element("ul", { role: "tree", "aria-label": "Call tree" });
    for (const child of [...tree.children(0)].slice(0, ROWS)) list.append(this.row(child));
    this.box.replaceChildren(list);
    list.firstElementChild?.setAttribute("tabindex", "0");
    // The heaviest branch is initially expanded to the point at which its time divides.
    let item = list.firstElementChild;
    for (let steps = 0; item && steps < 40; steps++) {
      const node = Number(item.dataset.node);
      const [first] = tree.children(node);
      if (first === undefined || tree.total[first] < 0.3 * tree.total[0]) break;
      this.open(item);
      item = item.querySelector(":scope > ul > li");
    }
  }

  row(node) {
    const { profile, tree, unit } = this;
    const name = tree.function[node];
    const hasMore = tree.children(node).length > 0;
    const isFound = this.found && name >= 0 && this.found[name];
    const owner = name >= 0 && profile.names[name] === this.culprit ? "culprit" : ownerOf(profile, tree, node);
    const share = tree.total[node] / (tree.total[0] || 1);
    const line = element(
      "div", { class: `line ${owner}${isFound ? " found" : ""}` },
      element("span", { class: "share", text: percent(share) }), element("span", { class: "time", text: amount(tree.total[node], unit) }),
      element("code", { text: nameOf(profile, tree, node) }), element("span", { class: "origin", text: placeOf(profile, tree.frame[node]) }),
    );
    return element("li", {
      role: "treeitem", tabindex: "-1", "data-node": node, "aria-level": tree.depth[node],
      "aria-expanded": hasMore ? "false" : undefined,
      "aria-label": [nameOf(profile, tree, node), percent(share), amount(tree.total[node], unit), placeOf(profile, tree.frame[node])].filter((part) => part).join(", "),
    }, line);
  }

  open(item) {
    if (item.getAttribute("aria-expanded") !== "false") return;
    const children = [...this.tree.children(Number(item.dataset.node))];
    const list = element("ul", { role: "group" }, ...children.slice(0, ROWS).map((child) => this.row(child)));
    if (children.length > ROWS) {
      const rest = children.slice(ROWS).reduce((sum, child) => sum + this.tree.total[child], 0);
      list.append(element("li", { role: "none", class: "rest", text: `${children.length - ROWS} more, ${amount(rest, this.unit)}` }));
    }
    item.append(list);
    item.setAttribute("aria-expanded", "true");
  }

  close(item) {
    if (item.getAttribute("aria-expanded") !== "true") return;
    item.querySelector(":scope > ul")?.remove();
    item.setAttribute("aria-expanded", "false");
  }

  click(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    if (item.getAttribute("aria-expanded") === "true") this.close(item);
    else this.open(item);
    this.focus(item);
  }

  focus(item) {
    if (!item) return;
    for (const other of this.box.querySelectorAll('[tabindex="0"]')) other.setAttribute("tabindex", "-1");
    item.setAttribute("tabindex", "0");
    item.focus();
  }

  key(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.ctrlKey || event.altKey || event.metaKey) return;
    const items = [...this.box.querySelectorAll("[role=treeitem]")];
    const at = items.indexOf(item);
    const isOpen = item.getAttribute("aria-expanded") === "true";
    switch (event.key) {
      case "ArrowDown": this.focus(items[at + 1]); break;
      case "ArrowUp": this.focus(items[at - 1]); break;
      case "Home": this.focus(items[0]); break;
      case "End": this.focus(items[items.length - 1]); break;
      case "ArrowRight":
        if (isOpen) this.focus(item.querySelector(":scope > ul > [role=treeitem]"));
        else this.open(item);
        break;
      case "ArrowLeft":
        if (isOpen) this.close(item);
        else this.focus(item.parentElement.closest("[role=treeitem]"));
        break;
      case "Enter":
      case " ": this.on.zoom(Number(item.dataset.node)); break;
      default: return;
    }
    event.preventDefault();
  }
}

/** A sortable table of all functions with their times. */
class FunctionTable {
  constructor(on) {
    this.on = on;
    this.box = byID("functions");
    this.order = "self";
    this.most = ROWS;
  }

  show(profile, times, whole, unit, found) {
    Object.assign(this, { profile, times, whole, unit, found });
    this.most = ROWS;
    this.draw();
  }

  draw() {
    const { profile, times, whole, unit, found } = this;
    const rows = [];
    for (let name = 0; name < profile.names.length; name++) {
      if (times.total[name] > 0 && (!found || found[name])) rows.push(name);
    }
    const key = times[this.order];
    rows.sort((one, other) => (this.order === "name" ? profile.names[one].localeCompare(profile.names[other]) : key[other] - key[one]) || one - other);
    const heading = (order, text, kind) => element("th", { scope: "col", class: kind, "aria-sort": this.order === order ? (order === "name" ? "ascending" : "descending") : "none" },
      element("button", { type: "button", text, "data-order": order, onclick: () => this.sort(order) }));
    const body = rows.slice(0, this.most).map((name) => element("tr", {},
      element("td", { class: "number", text: percent(times.self[name] / whole) }), element("td", { class: "number", text: amount(times.self[name], unit) }),
      element("td", { class: "number", text: percent(times.total[name] / whole) }), element("td", { class: "number", text: amount(times.total[name], unit) }),
      element("td", { class: profile.owners[name] }, element("button", { type: "button", class: "name", onclick: () => this.on.search(profile.names[name]) }, element("code", { text: profile.names[name] }))),
      element("td", { text: profile.modules[name] })));
    const table = element("table", {}, element("caption", { class: "unseen", text: "Functions with the time in them and in what they called" }),
      element("thead", {}, element("tr", {}, heading("self", "Itself", "number"), element("th", { class: "number", scope: "col", text: "Time" }), heading("total", "With callees", "number"), element("th", { class: "number", scope: "col", text: "Time" }), heading("name", "Function", ""), element("th", { scope: "col", text: "Module" }))),
      element("tbody", {}, ...body));
    this.box.replaceChildren(table);
    if (rows.length > this.most) {
      this.box.append(element("button", {
        type: "button", text: `${counted(rows.length - this.most, "function")} more`,
        onclick: () => {
          this.most += 5 * ROWS;
          this.draw();
        },
      }));
    }
    if (rows.length === 0) this.box.append(element("p", { text: "No function of that name." }));
  }

  sort(order) {
    this.order = order;
    this.draw();
    this.box.querySelector(`[data-order=${order}]`)?.focus();
  }
}
