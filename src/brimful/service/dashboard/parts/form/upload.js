export default {
  props: { name: String, label: String, hint: String, beside: Boolean },
  template: `
    <div :class="beside ? 'beside' : 'field'">
      <label :for="name" :class="{ unseen: beside }">{{ label }}</label>
      <input :id="name" class="input" type="file" @change="send" :aria-describedby="name + '-note'">
      <progress v-if="share !== null" :value="share" max="1" aria-label="Part of the file that is sent"></progress>
      <span :id="name + '-note'" :class="fault ? 'fault' : 'help'" role="status">{{ note ?? hint }}</span>
    </div>`,
  data() {
    return { share: null, note: null, fault: false };
  },
  methods: {
    send(event) {
      const file = event.target.files[0];
      if (!file) return;
      const request = new XMLHttpRequest();
      request.open("POST", "/api/uploads?" + new URLSearchParams({ name: file.name }));
      request.setRequestHeader("content-type", "application/octet-stream");
      request.upload.onprogress = (progress) => {
        this.share = progress.lengthComputable ? progress.loaded / progress.total : null;
      };
      request.onload = () => {
        let answer = {};
        try { answer = JSON.parse(request.responseText); } catch { /* no JSON: the status says enough */ }
        this.share = null;
        this.fault = request.status !== 201;
        this.note = this.fault ? answer.detail || "the server refused it" : file.name + " is uploaded";
        if (!this.fault) this.$emit("uploaded", [answer.id, file.name]);
      };
      request.onerror = () => {
        this.share = null;
        this.fault = true;
        this.note = "the connection broke; choose the file again";
      };
      this.fault = false;
      this.note = "sending " + file.name;
      request.send(file);
    },
  },
};
