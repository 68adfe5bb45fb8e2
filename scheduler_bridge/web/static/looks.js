// Colours of jobs: those of report/charts.py, where the reasons are. Hatches mean nodes that are reserved, nothing else.

const OKABE_ITO = ["#56B4E9", "#0072B2", "#E69F00", "#009E73", "#F0E442", "#D55E00", "#CC79A7"];
const TONES = [[0, 0], [255, 0.35], [0, 0.4], [255, 0.65]];
const COLORS = TONES.flatMap(([shade, share]) => OKABE_ITO.map((color) => mixed(color, shade, share)));
const patterns = new Map();

export const PHASES = {
  pre: "#E69F00", spawn: "#56B4E9", join: "#009E73", drain: "#56B4E9", release: "#009E73", commit: "#F0E442", post: "#CC79A7",
};

export function color(id) {
  return COLORS[(id - 1) % COLORS.length];
}

// Black or white, whichever reads better on the job's colour.
export function ink(id) {
  const [red, green, blue] = parts(color(id)).map((part) => part / 255);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 ? "#000000" : "#ffffff";
}

function mixed(color, shade, share) {
  return `#${parts(color).map((part) => Math.floor((1 - share) * part + share * shade + 0.5).toString(16).padStart(2, "0")).join("").toUpperCase()}`;
}

function parts(color) {
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}

// "/" or "." as the filling of a rectangle.
export function pattern(context, mark, line) {
  const key = `${mark}${line}`;
  if (!patterns.has(key)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const drawing = tile.getContext("2d");
    drawing.strokeStyle = drawing.fillStyle = line;
    drawing.lineWidth = 1.3;
    drawing.beginPath();
    if (mark === "/") for (const shift of [-8, 0, 8]) segment(drawing, shift, 8, shift + 8, 0);
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
