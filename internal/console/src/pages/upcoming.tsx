import { call, path } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { namespace, query } from "../route.ts";
import { millis, serverNow } from "../time.ts";
import type { Simulated } from "../types.ts";
import { count, Empty, many, Page, Pending, Problem } from "../ui/bits.tsx";
import { One, Text } from "../ui/chips.tsx";
import { Comings } from "../ui/lists.tsx";

const ranges: [string, string][] = [["1h", "1 hour"], ["24h", "24 hours"], ["168h", "7 days"], ["720h", "30 days"]];

/** Upcoming is what fires next, in the order of time. */
export function Upcoming() {
  const ns = namespace.value, within = query.value.get("within") || "24h", prefix = query.value.get("prefix") ?? "";
  const url = path`/v1/namespaces/${ns}/timers` + ":simulate", body = () => ({ until: new Date(serverNow() + millis(within)).toISOString(), limit: 500, ...(prefix ? { filter: { prefix } } : {}) });
  const coming = useData(["up", ns, within, prefix].join(" "), (stop) => call<Simulated>("POST", url, body(), stop));
  const fires = coming.data?.fires ?? [];
  return (
    <Page title="Upcoming" sub={coming.data && <>{coming.data.more ? `the next ${count(fires.length)} fires` : many(fires.length, "fire")} of {many(coming.data.timers, "timer")}</>}>
      <div class="filters">
        <One name="within" label="How far" values={ranges} otherwise="24h" />
        <Text name="prefix" label="Names that begin with" hint="name begins with" />
      </div>
      {coming.error && <Problem error={coming.error} />}
      {!coming.data && !coming.error && <Pending rows={20} />}
      {coming.data && (fires.length
        ? <Comings rows={fires} label="What fires next" cli={command(["simulate"], [["--until", within], ["--limit", "500"], ["--prefix", prefix]], ns)} url={url} body={body()} foot={coming.data.more ? `the first ${fires.length}` : undefined} />
        : <Empty title="Nothing fires in this time" command={command(["simulate"], [["--until", "720h"]], ns)}>Look further ahead, or at another namespace.</Empty>)}
    </Page>
  );
}
