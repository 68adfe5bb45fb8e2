// Numbers as people read them, worded as in the report and on the terminal.

export const NOTHING = "–";

export function seconds(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value > 0 && value < 0.0995) return `${Math.ceil(1000 * value)} ms`;
  if (value < 9.95) return `${Math.max(0, value).toFixed(1)} s`;
  if (value < 600) return `${value.toFixed(0)} s`;
  if (value < 36000) return `${(value / 60).toFixed(1)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

export function percent(share) {
  return `${Math.round(100 * share)} %`;
}

export function large(value) {
  for (const [limit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= 0.9995 * limit) return `${Number((value / limit).toPrecision(3))} ${letter}`;
  }
  return `${Number(value.toPrecision(3))}`;
}

export function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function span(least, most) {
  return least === most ? `${least}` : `${least}–${most}`;
}

export function clock(date, precise = true) {
  const part = (number) => String(number).padStart(2, "0");
  const minutes = `${part(date.getHours())}:${part(date.getMinutes())}`;
  return precise ? `${minutes}:${part(date.getSeconds())}` : minutes;
}

export function ago(past_s) {
  return past_s < 0.95 ? "now" : `${seconds(past_s)} ago`;
}

// A reason, whose times are on the scheduler's clock, with each of them worded otherwise: `put` gets "at", "before" or
// "until", and the time.
export function timesIn(words, put) {
  return words.replace(/\b(at|before|until) (\d+(?:\.\d+)?) s\b/g, (_, word, number) => put(word, Number(number)));
}

// How far away that is; `left_s` is negative if it is over.
export function away(word, left_s) {
  if (left_s < 0) return `${word === "at" ? "" : `${word} `}${ago(-left_s)}`;
  return `${{ at: "in", before: "within", until: "for" }[word]} ${seconds(left_s)}${word === "until" ? " more" : ""}`;
}
