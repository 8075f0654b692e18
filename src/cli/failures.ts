/**
 * How a command fails, and how a call of the server does. `refusal-words.ts` explains a call's
 * failure to the person who typed the command.
 */

/** The end of a command that failed. Its message is the sentence that people read. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure";
  /** 1: the command failed. 2: its arguments are wrong. */
  readonly exitCode: 1 | 2;
  /** The error for programs, in the form of docs/errors.md as far as it is known. */
  readonly error: object;

  constructor(
    sentence: string,
    { exitCode = 1, cause, error }: { exitCode?: 1 | 2; cause?: unknown; error?: object } = {},
  ) {
    super(sentence, { cause });
    this.exitCode = exitCode;
    const code = cause instanceof CallRefused ? cause.reason?.toLowerCase() : undefined;
    this.error = error ?? { ...(code !== undefined && { code }), message: sentence };
  }
}

/** The failure of a command whose arguments are wrong, or contradict each other. */
export function wrongUse(sentence: string): CommandFailure {
  return new CommandFailure(sentence, { exitCode: 2 });
}

/** An answer that says no. Its message has the words of the server. */
export class CallRefused extends Error {
  override readonly name = "CallRefused";
  /** Connect's name of the code, such as `not_found`. */
  readonly code: string;
  /** Keyrun's reason; undefined if the answer is not from Keyrun. */
  readonly reason: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  /** The fields at fault, by their paths in the proto. */
  readonly violations: readonly { readonly field: string; readonly description: string }[];

  constructor(answer: ErrorAnswer) {
    super(answer.message ?? "");
    this.code = answer.code;
    const details = (answer.details ?? []).map(({ debug }) => debug ?? {});
    const info = details.find(({ reason }) => reason !== undefined);
    this.reason = info?.reason;
    this.metadata = info?.metadata ?? {};
    this.violations = details.flatMap(({ fieldViolations }) => fieldViolations ?? []);
  }
}

/** An error as Connect writes it. Keyrun writes each detail in JSON, too. */
export interface ErrorAnswer {
  readonly code: string;
  readonly message?: string;
  readonly details?: readonly {
    readonly debug?: {
      readonly reason?: string;
      readonly metadata?: Record<string, string>;
      readonly fieldViolations?: readonly { field: string; description: string }[];
    };
  }[];
}

/** A call that got no answer. */
export class CallUnanswered extends Error {
  override readonly name = "CallUnanswered";
  /** The code of the system's error; `LATE` past the deadline; `STRANGE` if it was not Connect. */
  readonly why: string;

  constructor(why: string, cause?: unknown) {
    super(why, { cause });
    this.why = why;
  }
}

export function isCallError(error: unknown): error is CallRefused | CallUnanswered {
  return error instanceof CallRefused || error instanceof CallUnanswered;
}
