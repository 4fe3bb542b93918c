import { useState } from "preact/hooks";
import { curl } from "../cli.ts";
import { Command } from "./bits.tsx";
import { Dialog } from "./dialog.tsx";

/** Terminal is a button that shows the command and the request which do the same as a part of a view. */
export function Terminal({ cli, url, method, body }: { cli?: string | undefined; url?: string | undefined; method?: string; body?: unknown }) {
  const [open, put] = useState(false);
  if (!cli && !url) return null;
  return (
    <>
      <button type="button" class="small quiet terminal" onClick={() => put(true)}>As a command</button>
      {open && (
        <Dialog title="The same in a terminal" close={() => put(false)} wide>
          {cli && <Command text={cli} />}
          {url && <Command text={curl(method ?? (body === undefined ? "GET" : "POST"), url, body)} label="Copy the request" />}
        </Dialog>
      )}
    </>
  );
}
