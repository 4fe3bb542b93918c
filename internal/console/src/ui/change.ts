import { useRef, useState } from "preact/hooks";
import { Once } from "../api.ts";

/**
 * useChange is how a form or a button changes something. While it does, it is busy and to be disabled, and to press it does nothing. error is
 * why the last change failed, unless something else is done with that.
 */
export function useChange() {
  const [busy, wait] = useState(false);
  const [error, fail] = useState<Error>();
  const [once] = useState(() => new Once());
  const running = useRef(false);
  const change = async (work: (once: Once) => Promise<unknown>, failed: (err: Error) => void = fail): Promise<void> => {
    if (running.current) return;
    running.current = true;
    wait(true);
    fail(undefined);
    try {
      await work(once);
    } catch (err) {
      failed(err as Error);
    }
    running.current = false;
    wait(false);
  };
  return { busy, error, fail, change };
}
