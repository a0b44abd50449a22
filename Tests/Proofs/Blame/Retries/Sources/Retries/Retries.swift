/// Calls `attempt` until it succeeds. A dependency's function whose time counts for the caller.
@inline(never)
public func retrying<Result>(_ attempt: (Int) throws -> Result?) rethrows -> Result {
  var number = 0
  while true {
    if let result = try attempt(number) { return result }
    number += 1
  }
}

/// A dependency's type that takes the time itself.
public struct Squeezer: Sendable {
  /// Creates a squeezer.
  public init() {}

  /// Repeatedly counts the runs of equal bytes in `bytes` while `isWanted`. Returns the sum of the counts.
  @inline(never)
  public func squeeze(_ bytes: [UInt8], while isWanted: () -> Bool) -> Int {
    var total = 0
    while isWanted() {
      for _ in 0..<8 { total &+= lengths(of: bytes).count }
    }
    return total
  }

  @inline(never)
  private func lengths(of bytes: [UInt8]) -> [Int] {
    var lengths: [Int] = []
    var last: UInt8?
    for byte in bytes {
      if byte == last { lengths[lengths.count - 1] += 1 } else { lengths.append(1) }
      last = byte
    }
    return lengths
  }
}
