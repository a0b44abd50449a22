/// A value behind a reference, for large structs: each struct that contains a report needs 30 kB of code for its copies.
package final class Boxed<Value: Hashable & Sendable>: Hashable, Sendable {
  package let value: Value

  package init(_ value: Value) { self.value = value }

  package static func == (left: Boxed, right: Boxed) -> Bool { left.value == right.value }
  package func hash(into hasher: inout Hasher) { hasher.combine(value) }
}
