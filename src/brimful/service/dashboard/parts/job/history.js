import { h } from "vue";
import { iso, moment } from "/dashboard/moments.js";

const MOST = { events: 300, log: 400 };

export default {
  props: { label: String, kind: String, entries: Array },
  data() {
    return { items: [...this.entries] };
  },
  mounted() {
    this.$refs.box.scrollTop = this.$refs.box.scrollHeight;
  },
  render() {
    const log = this.kind !== "events", box = { class: this.kind, role: "log", "aria-label": this.label, tabindex: 0, ref: "box" };
    if (log) return h("pre", box, this.items.join("") || "Nothing yet.");
    const none = this.items.length ? null : h("li", { class: "muted" }, "Nothing yet.");
    return h("div", box, h("ul", [...this.items.map((entry) => this.event(entry)), none]));
  },
  methods: {
    event({ id, time, kind, text }) {
      const when = h("time", { datetime: iso(time) }, moment(time, 8));
      return h("li", { key: id, "data-event": id }, [when, " ", h("span", { class: "kind" }, kind), h("span", text)]);
    },
    append(entries) {
      const box = this.$refs.box, atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 30;
      const last = this.kind === "events" && this.items.length ? this.items[this.items.length - 1].id : 0;
      const fresh = this.kind === "events" ? entries.filter((entry) => entry.id > last) : entries;
      this.items = [...this.items, ...fresh].slice(-MOST[this.kind]);
      if (atEnd) this.$nextTick(() => (box.scrollTop = box.scrollHeight));
    },
  },
};
