/** The end of a command that failed. Its message is the sentence that people read. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure";
  /** 1: the command failed. 2: its arguments are wrong. */
  readonly exitCode: 1 | 2;

  constructor(sentence: string, { exitCode = 1, cause }: { exitCode?: 1 | 2; cause?: unknown } = {}) {
    super(sentence, { cause });
    this.exitCode = exitCode;
  }
}

/** The failure of a command whose arguments are wrong, or contradict each other. */
export function wrongUse(sentence: string): CommandFailure {
  return new CommandFailure(sentence, { exitCode: 2 });
}
