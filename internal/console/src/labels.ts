// Labels as they are typed: name=value, one a line.

export type Labels = Record<string, string>;

export const linesOf = (labels: Labels | undefined): string => Object.entries(labels ?? {}).map(([k, v]) => k + "=" + v).join("\n");

/** labelsOf reads lines. One without a value has an empty one; checkLabels tells of it. */
export const labelsOf = (text: string | undefined): Labels =>
  Object.fromEntries((text ?? "").split("\n").map((l) => l.trim()).filter(Boolean).map((l) => l.split("=")).map(([k, ...v]) => [k!.trim(), v.join("=").trim()]));

export function checkLabels(text: string | undefined): void {
  if ((text ?? "").split("\n").some((l) => l.trim() && !l.includes("="))) throw new Error("Labels are name=value, one a line.");
}
