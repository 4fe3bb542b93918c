import { link, place } from "../route.ts";
import { Page, Problem } from "../ui/bits.tsx";
import { Failed } from "../api.ts";

/** NotFound is the view of a path that has none, or none for this user. */
export function NotFound({ right }: { right?: string }) {
  if (right) {
    return <Page title="Not allowed"><Problem error={new Failed({ title: "Your credentials do not allow this view.", status: 403, code: "forbidden", detail: `It needs the right ${right}.` })} /></Page>;
  }
  return <Page title="No such view"><p>There is no view at <code>{place.value.path}</code>. <a href={link("/")}>Go to Now</a>, or press Ctrl K.</p></Page>;
}
