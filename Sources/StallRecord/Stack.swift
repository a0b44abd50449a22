/// Why a stack has no more frames. Everything but ``outermost`` means that callers are missing.
package enum StackEnd: UInt8, Hashable, Sendable, CaseIterable {
  /// The thread's first function was reached: the stack is complete.
  case outermost = 0
  /// The copy was shorter than the stack.
  case copyLimit = 1
  /// There were more frames than are kept.
  case frameLimit = 2
  /// A function says nothing about its caller and keeps no frame pointer.
  case noUnwindInformation = 3
  /// A return address is in no module.
  case noModule = 4
  /// Memory that was needed could not be read.
  case unreadable = 5
  /// A frame led to itself.
  case noProgress = 6
  /// The unwinder gave up for another reason.
  case failed = 7
  /// There was nothing to unwind.
  case notCaptured = 8
  /// A register is needed that a thread which was read from outside does not give.
  case noRegister = 9
  /// It is of a child task, and the callers of its parent are not known.
  case childTask = 10
  /// It is of a task, and who awaited it was not known any more when that was to be read.
  case taskLost = 11

  /// What a reader is told about the missing callers, or `nil` when none are missing.
  package var explanation: String? {
    switch self {
    case .outermost: nil
    case .copyLimit: "the stack is deeper than the copy that was taken of it"
    case .frameLimit: "the stack has more frames than are kept"
    case .noUnwindInformation: "a function has neither unwind information nor a frame pointer"
    case .noModule: "a return address is in no module"
    case .unreadable: "memory of the stack or the unwind tables could not be read"
    case .noProgress: "a frame led to itself"
    case .failed: "the unwinder gave up"
    case .notCaptured: "no stack was captured"
    case .noRegister: "a register is needed that a thread which is read from outside does not give"
    case .taskLost: "it is of a task that had gone on before its callers were read"
    case .childTask: "it is of a child task, whose parent could not be read"
    }
  }
}

/// A thread's stack at one moment.
package struct Stack: Hashable, Sendable {
  /// The frames, innermost first.
  package var frames: [StackFrame]
  /// Why there are no more.
  package var end: StackEnd
  /// The first frame that was not found by unwinding but taken from an earlier stack of the same work, whose return addresses
  /// still lay at the same places; `nil` when all were unwound.
  package var joinedFrom: Int?
  /// What is left out in the midst of a stack that has more frames than are kept; `nil` when nothing is.
  package var omission: Omission?

  /// Frames that are left out.
  package struct Omission: Hashable, Sendable {
    /// How many frames of the stack come before them, innermost first.
    package var index: Int
    /// How many are left out.
    package var count: Int

    /// `count` frames that are left out behind the first `index`.
    package init(index: Int, count: Int) {
      self.index = index
      self.count = count
    }
  }

  /// Whether callers are missing at its end.
  package var isTruncated: Bool { end != .outermost }

  /// A stack of `frames`, innermost first, that ends for the reason `end`.
  package init(frames: [StackFrame], end: StackEnd, joinedFrom: Int? = nil, omission: Omission? = nil) {
    self.frames = frames
    self.end = end
    self.joinedFrom = joinedFrom
    self.omission = omission
  }
}

/// How the attempt to capture a stack went.
package enum CaptureOutcome: UInt8, Hashable, Sendable, CaseIterable, BitwiseCopyable {
  /// There is a stack.
  case captured = 0
  /// The work item ended before its thread could be looked at.
  case unitOver = 1
  /// The thread had exited, or was never known.
  case threadGone = 2
  /// The thread did not answer in time.
  case noAnswer = 3
  /// The kernel refused to send the signal, or the thread could not have run its handler: no room on its stack, or no
  /// thread-local storage.
  case notSignalled = 4
  /// Too many earlier requests are held by threads that were stopped while they answered.
  case requestsStuck = 5
  /// The kernel does not tell what the thread does, and the thread did not run: it was blocked, as far as can be known.
  case noLook = 7
  /// The thread was blocked and its stack could not be read from outside. Blocked threads are sent no signal, because
  /// what they wait in would return early.
  case untouchable = 8
  /// Another handler has been installed for the signal.
  case handlerReplaced = 9
  /// No thread was working on it: it waited for one.
  case noWorker = 10
  /// Nobody took stacks: the kernel held up the thread that does.
  case samplerStopped = 11
  /// The task that had begun it had ended.
  case taskGone = 12

  /// What a reader is told when there is no stack.
  package var explanation: String {
    switch self {
    case .captured: "captured"
    case .unitOver: "the work ended before its thread could be looked at"
    case .threadGone: "the thread had exited"
    case .noAnswer: "the thread did not answer in time"
    case .notSignalled: "the thread could not be sent a signal"
    case .requestsStuck: "earlier requests were never answered"
    case .noLook: "the kernel does not tell what the thread does, and it did not run"
    case .untouchable: "the thread was blocked, and its stack could not be read from outside"
    case .noWorker: "no thread was known to work on it"
    case .taskGone: "its task had ended without it"
    case .samplerStopped: "the kernel held up the thread that takes stacks"
    case .handlerReplaced: "another handler has been installed for SIGPROF"
    }
  }
}

/// What a thread was doing when it was looked at.
package enum ThreadActivity: Hashable, Sendable, BitwiseCopyable {
  /// The kernel did not tell.
  case unknown
  /// It was on a processor, or waiting for one.
  case running
  /// It was blocked in the system call with this number, on the process's architecture.
  case inSystemCall(Int32)
  /// It was blocked in a system call that the kernel had begun anew after the process had been stopped: the one with this
  /// number, `nil` where that is not known.
  case inRestartedCall(Int32?)
  /// It was blocked outside a system call: in a page fault, for one.
  case blocked

  /// No thread ran its task, which waited at an `await`.
  case suspended
  /// No thread ran its task, which was ready to run.
  case enqueued

  /// Whether it was waiting for something other than a processor.
  package var isWaiting: Bool {
    switch self {
    case .inSystemCall, .inRestartedCall, .blocked, .suspended, .enqueued: true
    case .unknown, .running: false
    }
  }

  /// The activity's number in files, and in the events of the observer.
  package var code: UInt8 {
    switch self {
    case .unknown: 0
    case .running: 1
    case .inSystemCall: 2
    case .blocked: 3
    case .inRestartedCall: 4
    case .suspended: 5
    case .enqueued: 6
    }
  }

  /// The number of the system call in files; −1 if there is none, or it is not known.
  var call: Int32 {
    switch self {
    case .inSystemCall(let call): call
    case .inRestartedCall(let call): call ?? -1
    case .unknown, .running, .blocked, .suspended, .enqueued: -1
    }
  }

  /// The activity with the number `code`; `call` is the system call's number.
  package init(code: UInt8, call: Int32) {
    switch code {
    case 1: self = .running
    case 2: self = .inSystemCall(call)
    case 3: self = .blocked
    case 4: self = .inRestartedCall(call < 0 ? nil : call)
    case 5: self = .suspended
    case 6: self = .enqueued
    default: self = .unknown
    }
  }
}
