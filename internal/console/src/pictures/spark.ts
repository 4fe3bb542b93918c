/** A bar of a sparkline: how one occurrence ended. */
export interface Bar { x: number; y: number; w: number; h: number; kind: string; title: string }

export interface Ending { ending: string; title: string; lag?: number }

/**
 * bars lays out endings, oldest first, as bars of equal width, right aligned, so that the newest is always at the same place.
 * What fired is low, what failed is high: failures are seen without colours.
 */
export function bars(list: Ending[], slots: number, w: number, h: number): Bar[] {
  const shown = list.slice(-slots);
  const step = w / slots;
  return shown.map((e, i) => {
    const tall = e.ending === "fired" ? 0.45 : e.ending === "skipped" ? 0.2 : 1;
    const high = Math.max(2, Math.round(h * tall));
    return { x: round((slots - shown.length + i) * step), y: h - high, w: round(Math.max(1, step - 1)), h: high, kind: e.ending, title: e.title };
  });
}

/** round keeps SVG attributes short. */
export const round = (n: number): number => Math.round(n * 100) / 100;
