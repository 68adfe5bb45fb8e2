// The tables: a row per job or order, kept from one picture to the next; only cells that differ are exchanged.

// On a narrow page a row takes several lines.
const FEW = window.matchMedia("(max-width: 560px)").matches ? 15 : 50;

export class Table {
  constructor(id) {
    this.body = document.querySelector(`#${id} tbody`);
    this.count = document.getElementById(`${id}-count`);
    this.more = document.getElementById(`${id}-more`);
    this.rows = new Map();
    this.limit = FEW;
    this.button = document.createElement("button");
    this.button.type = "button";
    this.button.addEventListener("click", () => {
      this.limit = this.limit === FEW ? Infinity : FEW;
      this.show(...this.last);
    });
    this.more.append(this.button);
  }

  // Shows items, of which `describe` makes rows: {key, cells}. `unlisted`: how many more there are, which are not known here.
  show(items, describe, unlisted = 0) {
    this.last = [items, describe, unlisted];
    const shown = items.slice(0, this.limit).map(describe);
    const keys = new Set(shown.map((row) => row.key));
    for (const [key, row] of this.rows) {
      if (!keys.has(key)) {
        row.remove();
        this.rows.delete(key);
      }
    }
    shown.forEach((row, index) => {
      const element = this.row(row);
      if (this.body.children[index] !== element) this.body.insertBefore(element, this.body.children[index] ?? null);
    });
    this.count.textContent = items.length ? `${items.length + unlisted}` : "none";
    this.more.hidden = items.length <= FEW;
    const all = unlisted ? `the first ${items.length}` : `all ${items.length}`;
    const label = this.limit === FEW ? `show ${all}` : `show ${FEW} of ${items.length}`;
    if (this.button.textContent !== label) this.button.textContent = label;
  }

  row({ key, cells }) {
    const row = this.rows.get(key);
    if (row === undefined) {
      this.rows.set(key, part("tr", "", ...cells));
      return this.rows.get(key);
    }
    cells.forEach((cell, index) => {
      if (!row.children[index].isEqualNode(cell)) row.children[index].replaceWith(cell);
    });
    return row;
  }
}

// A cell: its class, its label on a narrow page, its tooltip, and what is in it.
export function cell({ as = "", label = "", title = "" }, ...content) {
  const made = part("td", as, ...content);
  if (label) made.dataset.label = label;
  if (title) made.title = title;
  return made;
}

// Words in full ink, and more of them in faint ink below.
export function pair(words, below, as = "", label = "", title = "") {
  return cell({ as, label, title }, words, ...(below ? [part("span", "sub", below)] : []));
}

export function part(tag, as, ...content) {
  const made = document.createElement(tag);
  made.className = as;
  made.append(...content);
  return made;
}
