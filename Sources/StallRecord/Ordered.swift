/// Returns the positions from 0 to `count` in the order of `isBefore`, which compares two positions.
@usableFromInline
package func order(_ count: Int, _ isBefore: (Int, Int) -> Bool) -> [Int] { (0..<count).sorted(by: isBefore) }

extension Sequence {
  /// Sorts like `sorted(by:)`, of whose 50 functions the compiler makes a copy for each type. This one sorts numbers.
  @inlinable
  package func ordered(by isBefore: (Element, Element) -> Bool) -> [Element] {
    let elements = Array(self)
    return order(elements.count) { isBefore(elements[$0], elements[$1]) }.map { elements[$0] }
  }
}
