/// A small seedable generator: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
public struct SplitMix: RandomNumberGenerator, Sendable {
  private var state: UInt64

  /// Creates a generator with `seed`.
  public init(_ seed: UInt64) { state = seed }

  /// The next number.
  public mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  /// Returns a generator derived from this one and `number`.
  public func derived(_ number: UInt64) -> SplitMix {
    var other = SplitMix(state ^ (number &+ 1) &* 0xd1b5_4a32_d192_ed03)
    _ = other.next()
    return other
  }
}
