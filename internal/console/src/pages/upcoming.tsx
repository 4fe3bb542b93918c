import { call, path } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { namespace, query } from "../route.ts";
import { millis, serverNow } from "../time.ts";
import type { Simulated } from "../types.ts";
import { Empty, Page, Problem } from "../ui/bits.tsx";
import { One, Text } from "../ui/chips.tsx";
import { Comings } from "../ui/lists.tsx";

/** Upcoming is what fires next, in the order of time. */
export function Upcoming() {
  const ns = namespace.value, within = query.value.get("within") || "24h", prefix = query.value.get("prefix") ?? "";
  const coming = useData(["up", ns, within, prefix].join(" "), (stop) => call<Simulated>("POST", path`/v1/namespaces/${ns}/timers` + ":simulate",
    { until: new Date(serverNow() + millis(within)).toISOString(), limit: 500, ...(prefix ? { filter: { prefix } } : {}) }, stop));
  const fires = coming.data?.fires ?? [];
  return (
    <Page title="Upcoming" sub={coming.data && <>{fires.length}{coming.data.more ? " and more" : ""} fires of {coming.data.timers} timers</>}>
      <div class="filters">
        <One name="within" label="How far" values={[["24h", "24 hours"], ["1h", "1 hour"], ["168h", "7 days"], ["720h", "30 days"]]} />
        <Text name="prefix" label="Names that begin with" hint="name begins with …" />
      </div>
      {coming.error && <Problem error={coming.error} />}
      {coming.data && (fires.length
        ? <Comings rows={fires} label="What fires next" cli={command(["simulate"], [["--until", within], ["--limit", "500"], ["--prefix", prefix]], ns)} />
        : <Empty title="Nothing fires in this time" command={command(["simulate"], [["--until", "720h"]], ns)}>Look further ahead, or at another namespace.</Empty>)}
    </Page>
  );
}
