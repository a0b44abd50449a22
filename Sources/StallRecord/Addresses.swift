/// An address in a running (or formerly running) process.
///
/// Not to be confused with a ``FileAddress``: the loader moves a module by a different distance in every process.
public struct RuntimeAddress: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The address itself.
  public var value: UInt64

  /// Wraps `value`.
  public init(_ value: UInt64) { self.value = value }

  /// Whether `left` is below `right`.
  public static func < (left: RuntimeAddress, right: RuntimeAddress) -> Bool { left.value < right.value }

  /// The address as `0x…`.
  public var description: String { "0x" + String(value, radix: 16) }
}

/// An address as a module's own file states it: what symbol tables and debug information speak of.
public struct FileAddress: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The address itself.
  public var value: UInt64

  /// Wraps `value`.
  public init(_ value: UInt64) { self.value = value }

  /// Whether `left` is below `right`.
  public static func < (left: FileAddress, right: FileAddress) -> Bool { left.value < right.value }

  /// The address as `0x…`.
  public var description: String { "0x" + String(value, radix: 16) }
}

/// One address of a stack, with what is known about it.
public enum StackFrame: Hashable, Sendable {
  /// The instruction that was about to run when the thread was interrupted.
  case programCounter(RuntimeAddress)
  /// The instruction after a call that has not returned.
  case returnAddress(RuntimeAddress)

  /// The address as it was captured.
  public var address: RuntimeAddress {
    switch self {
    case .programCounter(let address), .returnAddress(let address): address
    }
  }

  /// The address to look up.
  ///
  /// A call may be the last instruction of its function (when the callee never returns), and the return address then
  /// belongs to the next one: so a return address is looked up one byte before, inside the call.
  public var lookupAddress: RuntimeAddress {
    switch self {
    case .programCounter(let address): address
    case .returnAddress(let address): RuntimeAddress(address.value &- 1)
    }
  }
}
