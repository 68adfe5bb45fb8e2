// The tables: a row per job or order, kept from one picture to the next; only cells whose content differs are made anew.

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
      this.show(this.last, this.unlisted);
    });
    this.more.append(this.button);
  }

  // Shows rows: {key, cells}, where a cell is {as: class, label, say: what it differs from another by, title: its tooltip, make: () => nodes}.
  // `unlisted`: how many more rows there are, which are not known here.
  show(rows, unlisted = 0) {
    this.last = rows;
    this.unlisted = unlisted;
    const shown = rows.slice(0, this.limit);
    const keys = new Set(shown.map((row) => row.key));
    for (const [key, row] of this.rows) {
      if (!keys.has(key)) {
        row.element.remove();
        this.rows.delete(key);
      }
    }
    shown.forEach((row, index) => {
      const element = this.row(row);
      if (this.body.children[index] !== element) this.body.insertBefore(element, this.body.children[index] ?? null);
    });
    this.count.textContent = rows.length ? `${rows.length + unlisted}` : "none";
    this.more.hidden = rows.length <= FEW;
    const all = unlisted ? `the first ${rows.length}` : `all ${rows.length}`;
    const label = this.limit === FEW ? `show ${all}` : `show ${FEW} of ${rows.length}`;
    if (this.button.textContent !== label) this.button.textContent = label;
  }

  row({ key, cells }) {
    let row = this.rows.get(key);
    if (row === undefined) {
      row = { element: document.createElement("tr"), said: [] };
      for (const cell of cells) {
        const made = document.createElement("td");
        if (cell.as) made.className = cell.as;
        if (cell.label) made.dataset.label = cell.label;
        row.element.append(made);
      }
      this.rows.set(key, row);
    }
    cells.forEach((cell, index) => {
      if (row.said[index] === cell.say) return;
      row.said[index] = cell.say;
      row.element.children[index].title = cell.title ?? "";
      row.element.children[index].replaceChildren(...cell.make());
    });
    return row.element;
  }
}

export function text(words, as = "", label = "") {
  return { as, label, say: words, make: () => [words] };
}

// Words in full ink, and more of them in faint ink below.
export function pair(words, below, as = "", label = "", title = "") {
  return { as, label, title, say: `${words}\n${below}`, make: () => (below ? [words, part("span", "sub", below)] : [words]) };
}

export function part(tag, as, ...content) {
  const made = document.createElement(tag);
  made.className = as;
  made.append(...content);
  return made;
}
