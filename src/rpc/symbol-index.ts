import type { DescEnum, DescExtension, DescFile, DescMessage, DescService } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";

/** The declarations in the files of some services, by name. Full names have no leading dot. */
export interface SymbolIndex {
  /** Full names of the services, sorted. */
  readonly serviceNames: readonly string[];
  /**
   * Returns the file with this path, for example `keyrun/v1/run_service.proto`; undefined if there
   * is none.
   */
  fileByName(name: string): DescFile | undefined;
  /**
   * Returns the file that declares this service, method, message, field, oneof, enum, enum value or
   * extension; undefined if there is none.
   */
  fileOfSymbol(fullName: string): DescFile | undefined;
  /**
   * Returns the file that declares the extension with this number of this message; undefined if
   * there is none.
   */
  fileOfExtension(messageName: string, number: number): DescFile | undefined;
  /**
   * Returns the numbers of all known extensions of this message, ascending; undefined if the
   * message is unknown.
   */
  extensionNumbersOf(messageName: string): readonly number[] | undefined;
}

/** Indexes the files that declare these services, and all files that those import. */
export function createSymbolIndex(services: readonly DescService[]): SymbolIndex {
  const files = new Map<string, DescFile>();
  for (const service of services) addFile(files, service.file);

  const symbols = new Map<string, DescFile>();
  const extensions = new Map<string, Map<number, DescFile>>();
  for (const file of files.values()) {
    for (const type of nestedTypes(file)) {
      for (const name of symbolsOf(type)) symbols.set(name, file);
      const extended = type.kind === "extension" ? type.extendee.typeName : undefined;
      if (type.kind === "message" && !extensions.has(type.typeName)) extensions.set(type.typeName, new Map());
      if (type.kind === "extension" && extended !== undefined) {
        const known = extensions.get(extended) ?? new Map<number, DescFile>();
        extensions.set(extended, known.set(type.number, file));
      }
    }
  }

  return {
    serviceNames: services.map((service) => service.typeName).sort(),
    fileByName: (name) => files.get(name),
    fileOfSymbol: (fullName) => symbols.get(fullName),
    fileOfExtension: (messageName, number) => extensions.get(messageName)?.get(number),
    extensionNumbersOf(messageName) {
      const known = extensions.get(messageName);
      return known && [...known.keys()].sort((a, b) => a - b);
    },
  };
}

function addFile(files: Map<string, DescFile>, file: DescFile): void {
  if (files.has(file.proto.name)) return;
  files.set(file.proto.name, file);
  for (const dependency of file.dependencies) addFile(files, dependency);
}

function symbolsOf(type: DescMessage | DescEnum | DescExtension | DescService): string[] {
  switch (type.kind) {
    case "message":
      return [type.typeName, ...membersOf(type.typeName, [...type.fields, ...type.oneofs])];
    case "service":
      return [type.typeName, ...membersOf(type.typeName, type.methods)];
    case "enum":
      // The values of an enum are its siblings, not its children (C++ scoping, see
      // descriptor.proto).
      return [type.typeName, ...membersOf(scopeOf(type), type.values)];
    case "extension":
      return [type.typeName];
  }
}

function membersOf(scope: string, members: readonly { readonly name: string }[]): string[] {
  return members.map((member) => (scope === "" ? member.name : `${scope}.${member.name}`));
}

function scopeOf(type: DescEnum): string {
  return type.parent?.typeName ?? type.file.proto.package;
}
