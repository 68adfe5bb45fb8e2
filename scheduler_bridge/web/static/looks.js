// Colours and hatches of jobs: Okabe and Ito's (safe for colour-blind readers), then the same again with hatches.

const COLORS = ["#56B4E9", "#E69F00", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"];
const HATCHES = ["", "/", "\\", "x", ".", "-"];
const patterns = new Map();

export const PHASES = {
  pre: "#E69F00", spawn: "#56B4E9", join: "#009E73", drain: "#56B4E9", release: "#009E73", commit: "#F0E442", post: "#CC79A7",
};

export function color(id) {
  return COLORS[(id - 1) % COLORS.length];
}

function hatch(id) {
  return HATCHES[Math.floor((id - 1) / COLORS.length) % HATCHES.length];
}

// Black or white, whichever reads better on the job's colour.
export function ink(id) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(color(id).slice(at, at + 2), 16) / 255);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 ? "#000000" : "#ffffff";
}

// What a canvas fills a job's bars with.
export function fill(context, id) {
  const mark = hatch(id);
  return mark === "" ? color(id) : pattern(context, mark, color(id), "rgba(255,255,255,.65)");
}

export function pattern(context, mark, ground, line) {
  const key = `${mark}${ground}${line}`;
  if (!patterns.has(key)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const drawing = tile.getContext("2d");
    if (ground) {
      drawing.fillStyle = ground;
      drawing.fillRect(0, 0, 8, 8);
    }
    drawing.strokeStyle = drawing.fillStyle = line;
    drawing.lineWidth = 1.3;
    drawing.beginPath();
    if (mark === "/" || mark === "x") for (const shift of [-8, 0, 8]) segment(drawing, shift, 8, shift + 8, 0);
    if (mark === "\\" || mark === "x") for (const shift of [-8, 0, 8]) segment(drawing, shift, 0, shift + 8, 8);
    if (mark === "-") segment(drawing, 0, 4, 8, 4);
    if (mark === "|") segment(drawing, 4, 0, 4, 8);
    drawing.stroke();
    if (mark === ".") drawing.fillRect(3, 3, 2, 2);
    patterns.set(key, context.createPattern(tile, "repeat"));
  }
  return patterns.get(key);
}

function segment(drawing, fromX, fromY, toX, toY) {
  drawing.moveTo(fromX, fromY);
  drawing.lineTo(toX, toY);
}
