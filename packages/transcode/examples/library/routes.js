import { Code, ConnectError } from "@connectrpc/connect";
import { Library } from "./gen/library_pb.js";

const books = new Map([
  ["shelves/1/books/faust", { name: "shelves/1/books/faust", title: "Faust", pages: 136n }],
]);

/** The services of the library, as for every other server of Connect. */
export function routes(router) {
  router.service(Library, {
    getBook: ({ name }) => find(name),
    updateBook({ book }) {
      const updated = { ...find(book.name), ...book };
      books.set(book.name, updated);
      return updated;
    },
    async *readPages({ name, first }) {
      const { title } = find(name);
      for (let number = first; number < first + 3; number += 1) yield { number, text: `${title}, ${number}` };
    },
  });
}

function find(name) {
  const book = books.get(name);
  if (book === undefined) throw new ConnectError(`There is no ${name}.`, Code.NotFound);
  return book;
}
