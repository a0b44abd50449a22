/// Numbers that follow from a seed (SplitMix64).
struct Random: RandomNumberGenerator {
  private var state: UInt64

  init(_ seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return value ^ (value >> 31)
  }

  /// Another generator, which follows from this one and `number`.
  func derived(_ number: UInt64) -> Random {
    var other = Random(state ^ (number &+ 1) &* 0xD1B5_4A32_D192_ED03)
    _ = other.next()
    return other
  }

  mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self) }

  mutating func isOnce(in times: Int) -> Bool { number(1...times) == 1 }
}
