/** A command that ends without doing what it was asked for: the message is the sentence that people read. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure";
  /** 1: it failed; 2: it was used wrongly. */
  readonly exitCode: 1 | 2;

  constructor(sentence: string, { exitCode = 1, cause }: { exitCode?: 1 | 2; cause?: unknown } = {}) {
    super(sentence, { cause });
    this.exitCode = exitCode;
  }
}

/** A command whose arguments contradict each other. */
export function wrongUse(sentence: string): CommandFailure {
  return new CommandFailure(sentence, { exitCode: 2 });
}
