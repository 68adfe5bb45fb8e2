// Colours of jobs, which the server takes from report/looks.py, and fillings. Hatches mean nodes that are reserved only.

import { COLORS, INKS } from "./colors.js";

const patterns = new Map();

export const PHASES = {
  pre: "#E69F00", spawn: "#56B4E9", join: "#009E73", drain: "#56B4E9", release: "#009E73", commit: "#F0E442", post: "#CC79A7",
};

export function color(id) {
  return COLORS[(id - 1) % COLORS.length];
}

// Black or white, whichever reads better on the job's colour.
export function ink(id) {
  return INKS[(id - 1) % INKS.length];
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
    if (mark === "/") {
      for (const shift of [-8, 0, 8]) {
        drawing.moveTo(shift, 8);
        drawing.lineTo(shift + 8, 0);
      }
    }
    drawing.stroke();
    if (mark === ".") drawing.fillRect(3, 3, 2, 2);
    patterns.set(key, context.createPattern(tile, "repeat"));
  }
  return patterns.get(key);
}
