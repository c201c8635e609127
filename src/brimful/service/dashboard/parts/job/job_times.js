import { h } from "vue";
import { day, iso, sameDay, time } from "/dashboard/moments.js";

export default {
  props: { times: Object },
  render() {
    // The day of the first, and of those on another day than the one before.
    const known = Object.entries(this.times).filter(([, seconds]) => seconds);
    return h("span", known.flatMap(([name, seconds], place) => {
      const stays = place > 0 && sameDay(seconds, known[place - 1][1]);
      const text = (stays ? "" : day(seconds) + " ") + time(seconds);
      return [(place ? ", " : "") + name + " ", h("time", { datetime: iso(seconds) }, text)];
    }));
  },
};
