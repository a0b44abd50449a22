/// An address in the process. Unlike a ``FileAddress``, it depends on the module's position in memory.
package struct RuntimeAddress: Hashable, Comparable, Sendable, CustomStringConvertible {
  package var value: UInt64

  package init(_ value: UInt64) { self.value = value }

  package static func < (left: RuntimeAddress, right: RuntimeAddress) -> Bool { left.value < right.value }

  package var description: String { "0x" + String(value, radix: 16) }
}

/// An address in a module's file, as used in symbol tables and debug information.
package struct FileAddress: Hashable, Comparable, Sendable, CustomStringConvertible {
  package var value: UInt64

  package init(_ value: UInt64) { self.value = value }

  package static func < (left: FileAddress, right: FileAddress) -> Bool { left.value < right.value }

  package var description: String { "0x" + String(value, radix: 16) }
}

package enum CodeAddress: Hashable, Sendable {
  /// An address in the module's file.
  case file(FileAddress)
  /// An address in the process, outside of files or without a known file address.
  case runtime(RuntimeAddress)

  package var value: UInt64 {
    switch self {
    case .file(let address): address.value
    case .runtime(let address): address.value
    }
  }
}

package enum FrameKind: UInt8, Hashable, Sendable, CaseIterable {
  /// The next instruction of the interrupted thread.
  case programCounter = 0
  /// The instruction after an unfinished call.
  case returnAddress = 1
  /// The resumption address of an async function that awaits the task, at the start of a part of the function.
  case asyncCaller = 2
  /// The return address of a task's first function. Not a caller.
  case taskStart = 3
  /// The return address of a child task's first function. If known, the parent's callers follow.
  case childStart = 4
  case taskLost = 5
}

package struct StackFrame: Hashable, Sendable {
  package var address: RuntimeAddress
  package var kind: FrameKind
  /// The start address of the function according to the unwinder; `nil` if unknown.
  package var functionStart: RuntimeAddress?

  package init(_ address: RuntimeAddress, _ kind: FrameKind, functionStart: RuntimeAddress? = nil) {
    self.address = address
    self.kind = kind
    self.functionStart = functionStart
  }

  package static func programCounter(_ address: RuntimeAddress, functionStart: RuntimeAddress? = nil) -> StackFrame {
    StackFrame(address, .programCounter, functionStart: functionStart)
  }

  package static func returnAddress(_ address: RuntimeAddress, functionStart: RuntimeAddress? = nil) -> StackFrame {
    StackFrame(address, .returnAddress, functionStart: functionStart)
  }

  package var isReturnAddress: Bool { kind == .returnAddress }

  /// The address for symbol lookup.
  ///
  /// If the callee never returns, a call can be the last instruction of its function. The return address then belongs
  /// to the next function. Return addresses are therefore looked up one byte earlier, inside the call.
  package var lookupAddress: RuntimeAddress { isReturnAddress ? RuntimeAddress(address.value &- 1) : address }
}
