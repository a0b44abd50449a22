/// Distinct values, referenced by number.
package struct Numbered<Value: Hashable> {
  package private(set) var all: [Value] = []
  private var numbers: [Value: Int] = [:]

  package init() {}

  /// Returns the number of `value`. Adds a new value.
  package mutating func number(_ value: Value) -> Int {
    if let number = numbers[value] { return number }
    numbers[value] = all.count
    all.append(value)
    return all.count - 1
  }
}
