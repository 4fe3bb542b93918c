import { render } from "preact";
import "./style.css";
import { App } from "./app.tsx";
import { listen } from "./route.ts";
import { load, session } from "./session.ts";

const theme = localStorage.getItem("rouse.theme");
if (theme) document.documentElement.dataset["theme"] = theme;

listen();
// Until the server has told who uses the console, the frame is shown, and that it does not answer.
const begin = () => load().catch(() => {
  session.value ??= { access: false };
  setTimeout(begin, 2000);
});
void begin();
render(<App />, document.getElementById("app")!);
