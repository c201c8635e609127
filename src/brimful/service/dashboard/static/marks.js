// Numbers and times, as the axes and the hints of plots show them.

const SECONDS = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
const DAY = 86400;
const UNITS = ["", "K", "M", "B", "T"];

export function short(value) {
  if (!Number.isFinite(value)) return "not finite";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(+value.toPrecision(5));
}

export function grouped(count) {
  // By hand: before its first number, a browser takes 40 ms to get the formats of languages ready.
  return String(count).replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
}

export function rangeOf(values) {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

function roundStep(rough) {
  const decade = 10 ** Math.floor(Math.log10(rough) + 1e-9);
  return decade * [1, 2, 5, 10].find((one) => one * decade >= rough * (1 - 1e-9));
}

function multiples(step, low, high) {
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, place) => (first + place) * step);
}

export function evenMarks(low, high, most = 6) {
  // Multiples of a round number between two, and what of them lies around both.
  const step = roundStep((high - low) / most);
  const [floor, ceiling] = [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
  return { step, floor, ceiling, marks: multiples(step, low, high), text: alike(step, Math.max(-floor, ceiling)) };
}

export function alike(step, most) {
  // How marks are written that are `step` apart, up to `most`: in one unit, with equally many decimals.
  if (most >= 1e15 || most < 1e-3) {
    const power = Math.floor(Math.log10(most)), unit = 10 ** power;
    return (value) => (value === 0 ? "0" : (value / unit).toFixed(decimals(step / unit)) + "e" + power);
  }
  let power = most >= 1e4 ? Math.floor(Math.log10(most) / 3) : 0;
  while (power && step < 10 ** (3 * power - 2)) power--;
  const unit = 1000 ** power, digits = decimals(step / unit);
  return (value) => (power && value === 0 ? "0" : grouped((value / unit).toFixed(digits)) + UNITS[power]);
}

function decimals(step) {
  return Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
}

export function timeMarks(high, most = 6) {
  // Of seconds from 0 on: marks, how they are written, and what that means.
  if (high <= 120) return { ...evenMarks(0, high, most), unit: "s" };
  const step = SECONDS.find((one) => one * most >= high) ?? Math.max(1, roundStep(high / DAY / most)) * DAY;
  const marks = multiples(step, 0, high), two = (number) => String(Math.floor(number)).padStart(2, "0");
  if (high <= 7200) return { marks, unit: "m:ss", text: (value) => Math.floor(value / 60) + ":" + two(value % 60) };
  if (high <= 4 * DAY) return { marks, unit: "h:mm", text: (value) => Math.floor(value / 3600) + ":" + two((value % 3600) / 60) };
  return { marks, unit: "days", text: (value) => grouped(+(value / DAY).toFixed(1)) };
}

export function duration(seconds) {
  if (seconds < 60) return +seconds.toFixed(1) + " s";
  const whole = Math.round(seconds), minutes = Math.floor(whole / 60) % 60, hours = Math.floor(whole / 3600);
  return hours ? `${grouped(hours)} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

export function logMarks(low, high) {
  // Round numbers between two, as their logarithms: decades where there are three of them, else steps of the last one.
  const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9);
  if (last - first >= 2) {
    const every = Math.ceil((last - first) / 6);
    return Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, place) => first + place * every);
  }
  const rough = (10 ** high - 10 ** low) / 5, decade = 10 ** Math.floor(Math.log10(rough));
  const step = high - low > 1 ? 0 : decade * ([1, 2, 5].find((one) => one * decade >= rough) ?? 10);
  const marks = step
    ? Array.from({ length: 12 }, (_, place) => (Math.ceil(10 ** low / step) + place) * step)
    : [-2, -1, 0, 1, 2].flatMap((place) => [1, 2, 5].map((one) => one * 10 ** (Math.floor(low) + place)));
  return marks.map(Math.log10).filter((mark) => mark >= low - 1e-9 && mark <= high + 1e-9);
}

export function logText(marks) {
  // How those are written: with equally many decimals, unless they are decades.
  const texts = marks.map((mark) => short(10 ** mark)), even = marks.at(-1) - marks[0] < 1 && !texts.some((text) => text.includes("e"));
  const digits = even ? Math.max(0, ...texts.map((text) => (text.split(".")[1] ?? "").length)) : 0;
  return (mark) => (even ? (10 ** mark).toFixed(digits) : short(10 ** mark));
}
