const MOST = { events: 300, log: 400 };

export default {
  template: `
    <div v-if="kind === 'events'" class="events" role="log" :aria-label="label" tabindex="0" ref="box"><ul>
      <li v-for="entry in items" :key="entry.id" :data-event="entry.id"><time :datetime="iso(entry.time)">{{ moment(entry.time) }}</time>
        <span class="kind">{{ entry.kind }}</span><span>{{ entry.text }}</span></li>
      <li v-if="!items.length" class="muted">Nothing yet.</li>
    </ul></div>
    <pre v-else class="log" role="log" :aria-label="label" tabindex="0" ref="box">{{ items.join("") || "Nothing yet." }}</pre>`,
  props: { label: String, kind: String, entries: Array },
  data() {
    return { items: [...this.entries] };
  },
  mounted() {
    this.$refs.box.scrollTop = this.$refs.box.scrollHeight;
  },
  methods: {
    append(entries) {
      const box = this.$refs.box, atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 30;
      const last = this.kind === "events" && this.items.length ? this.items[this.items.length - 1].id : 0;
      const fresh = this.kind === "events" ? entries.filter((entry) => entry.id > last) : entries;
      this.items = [...this.items, ...fresh].slice(-MOST[this.kind]);
      if (atEnd) this.$nextTick(() => (box.scrollTop = box.scrollHeight));
    },
    iso(seconds) {
      return new Date(seconds * 1000).toISOString();
    },
    moment(seconds) {
      return new Date(seconds * 1000).toTimeString().slice(0, 8); // by far the quickest, and there may be hundreds
    },
  },
};
