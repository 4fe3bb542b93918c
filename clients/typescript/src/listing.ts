/** Rows of the server, of which pages are read as they are needed. */
export class Listing<T> implements AsyncIterable<T> {
  readonly #read: (token: string) => Promise<{ rows: T[]; next: string }>;

  /** @internal */
  constructor(read: (token: string) => Promise<{ rows: T[]; next: string }>) {
    this.#read = read;
  }

  /** Iterates over the rows: `for await (const row of listing)`. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) yield* page;
  }

  /** Iterates over the pages. */
  async *pages(): AsyncGenerator<T[], void, undefined> {
    let token = "";
    do {
      const { rows, next } = await this.#read(token);
      yield rows;
      token = next;
    } while (token !== "");
  }

  /** Reads all pages, and returns their rows. */
  async all(): Promise<T[]> {
    const rows: T[] = [];
    for await (const row of this) rows.push(row);
    return rows;
  }
}
