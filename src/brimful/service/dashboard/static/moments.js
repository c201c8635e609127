// Moments as the one who looks reads them: the time on their clock, with the day where it is not today.

let days = null; // how a day is written, made for the first moment that needs it: that takes 40 ms

export function iso(seconds) {
  return new Date(seconds * 1000).toISOString();
}

export function time(seconds, digits = 8) {
  // `digits` is 5 for hours and minutes, 8 with seconds.
  return new Date(seconds * 1000).toTimeString().slice(0, digits); // by far the quickest
}

export function day(seconds) {
  const then = new Date(seconds * 1000), year = then.getFullYear();
  days ??= Intl.DateTimeFormat([], { month: "short", day: "numeric" });
  return days.format(then) + (year === new Date().getFullYear() ? "" : " " + year);
}

export function sameDay(seconds, other) {
  return new Date(seconds * 1000).toDateString() === new Date(other * 1000).toDateString();
}

export function moment(seconds, digits = 5) {
  const today = sameDay(seconds, Date.now() / 1000);
  return (today ? "" : day(seconds) + " ") + time(seconds, digits);
}
