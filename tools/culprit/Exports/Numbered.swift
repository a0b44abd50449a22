/// Distinct values, referenced by number.
struct Numbered<Value: Hashable> {
  private(set) var all: [Value] = []
  private var numbers: [Value: Int] = [:]

  /// Returns the number of `value`. Adds a new value.
  mutating func number(_ value: Value) -> Int {
    if let number = numbers[value] { return number }
    numbers[value] = all.count
    all.append(value)
    return all.count - 1
  }
}
