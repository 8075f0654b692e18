import type { DescEnum, DescExtension, DescFile, DescMessage, DescService } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";

/** What the files of some services declare, by name. Full names have no leading dot. */
export interface SymbolIndex {
  /** Full names of the services, in order. */
  readonly serviceNames: readonly string[];
  /** The file of this path, as in `keyrun/v1/run_service.proto`; undefined where it is not known. */
  fileByName(name: string): DescFile | undefined;
  /** The file that declares this service, method, message, field, oneof, enum, enum value or extension. */
  fileOfSymbol(fullName: string): DescFile | undefined;
  /** The file that declares the extension with this number of this message. */
  fileOfExtension(messageName: string, number: number): DescFile | undefined;
  /** The numbers of all known extensions of this message, ascending; undefined where the message is not known. */
  extensionNumbersOf(messageName: string): readonly number[] | undefined;
}

/** Indexes the files that declare these services and everything that those import. */
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
      // The values of an enum are its siblings, not its children (C++ scoping, see descriptor.proto).
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
