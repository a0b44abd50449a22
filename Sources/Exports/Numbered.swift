/// Values that others refer to by number.
struct Numbered<Value: Hashable> {
  /// The values, in the order of their numbers.
  private(set) var all: [Value] = []
  private var numbers: [Value: Int] = [:]

  /// The number of `value`, which gets one if it has none.
  mutating func number(_ value: Value) -> Int {
    if let number = numbers[value] { return number }
    numbers[value] = all.count
    all.append(value)
    return all.count - 1
  }
}
