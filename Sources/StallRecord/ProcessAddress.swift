/// An address in a running (or formerly running) process.
///
/// Not to be confused with a ``FileAddress``: the loader moves a module by a different distance in every process.
package struct RuntimeAddress: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The address itself.
  package var value: UInt64

  /// Wraps `value`.
  package init(_ value: UInt64) { self.value = value }

  /// Whether `left` is below `right`.
  package static func < (left: RuntimeAddress, right: RuntimeAddress) -> Bool { left.value < right.value }

  /// The address as `0x…`.
  package var description: String { "0x" + String(value, radix: 16) }
}

/// An address as a module's own file states it: what symbol tables and debug information speak of.
package struct FileAddress: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The address itself.
  package var value: UInt64

  /// Wraps `value`.
  package init(_ value: UInt64) { self.value = value }

  /// Whether `left` is below `right`.
  package static func < (left: FileAddress, right: FileAddress) -> Bool { left.value < right.value }

  /// The address as `0x…`.
  package var description: String { "0x" + String(value, radix: 16) }
}

/// An address of code, and what it is one of.
package enum CodeAddress: Hashable, Sendable {
  /// One of the module's file.
  case file(FileAddress)
  /// One of the process that ran: in no file, or where the file does not say.
  case runtime(RuntimeAddress)

  /// The number.
  package var value: UInt64 {
    switch self {
    case .file(let address): address.value
    case .runtime(let address): address.value
    }
  }
}

/// What an address of a stack is.
package enum FrameKind: UInt8, Hashable, Sendable, CaseIterable {
  /// The instruction that was about to run when the thread was interrupted.
  case programCounter = 0
  /// The instruction after a call that has not returned.
  case returnAddress = 1
  /// Where an async function goes on that awaits what the task runs: the beginning of a part of it.
  case asyncCaller = 2
  /// Where the first function of a task returns to; no caller.
  case taskStart = 3
  /// The same of a child task: the callers of its parent follow, where they are known.
  case childStart = 4
  /// Instead of all of them: the address of a task whose callers could not be read.
  case taskLost = 5
}

/// One address of a stack, with what is known about it.
package struct StackFrame: Hashable, Sendable {
  /// The address as it was captured.
  package var address: RuntimeAddress
  /// What the address is.
  package var kind: FrameKind
  /// The first address of the function, as the unwinder knew it; `nil` if it did not.
  package var functionStart: RuntimeAddress?

  /// The address of a frame of this kind.
  package init(_ address: RuntimeAddress, _ kind: FrameKind, functionStart: RuntimeAddress? = nil) {
    self.address = address
    self.kind = kind
    self.functionStart = functionStart
  }

  /// The instruction that was about to run when the thread was interrupted.
  package static func programCounter(_ address: RuntimeAddress, functionStart: RuntimeAddress? = nil) -> StackFrame {
    StackFrame(address, .programCounter, functionStart: functionStart)
  }

  /// The instruction after a call that has not returned.
  package static func returnAddress(_ address: RuntimeAddress, functionStart: RuntimeAddress? = nil) -> StackFrame {
    StackFrame(address, .returnAddress, functionStart: functionStart)
  }

  /// Whether it is the instruction after a call.
  package var isReturnAddress: Bool { kind == .returnAddress }

  /// The address to look up.
  ///
  /// A call may be the last instruction of its function (when the callee never returns), and the return address then
  /// belongs to the next one: so a return address is looked up one byte before, inside the call.
  package var lookupAddress: RuntimeAddress { isReturnAddress ? RuntimeAddress(address.value &- 1) : address }
}
