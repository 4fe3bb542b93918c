import { render } from "preact";
import "./style.css";
import { App } from "./app.tsx";
import { listen } from "./route.ts";
import { load, session } from "./session.ts";

const theme = localStorage.getItem("rouse.theme");
if (theme) document.documentElement.dataset["theme"] = theme;

listen();
load().catch(() => {
  // The frame is shown, and its views tell that the server does not answer.
  session.value = { access: false };
});
render(<App />, document.getElementById("app")!);
