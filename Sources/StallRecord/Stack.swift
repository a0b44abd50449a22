/// The reason why a stack ends.
package enum StackEnd: UInt8, Hashable, Sendable, CaseIterable {
  case outermost = 0
  /// The copy was shorter than the stack.
  case copyLimit = 1
  /// The stack has more frames than the limit.
  case frameLimit = 2
  /// A function has neither unwind information nor a frame pointer.
  case noUnwindInformation = 3
  /// A return address is outside all modules.
  case noModule = 4
  /// Required memory could not be read.
  case unreadable = 5
  /// A frame's caller was the frame itself.
  case noProgress = 6
  /// The unwinder failed for another reason.
  case failed = 7
  /// No stack was available for unwinding.
  case notCaptured = 8
  /// A required register is unavailable for threads read from outside.
  case noRegister = 9
  /// The stack belongs to a child task. The parent's callers are unknown.
  case childTask = 10
  /// The stack belongs to a task. Its awaiting functions could no longer be read.
  case taskLost = 11

  package var explanation: String? {
    switch self {
    case .outermost: nil
    case .copyLimit: "the stack is deeper than its copy"
    case .frameLimit: "the stack has more frames than the limit"
    case .noUnwindInformation: "a function has neither unwind information nor a frame pointer"
    case .noModule: "a return address is in no module"
    case .unreadable: "memory of the stack or the unwind tables could not be read"
    case .noProgress: "the unwinder made no progress"
    case .failed: "the unwinder gave up"
    case .notCaptured: "no stack was captured"
    case .noRegister: "a register is needed that cannot be read from outside the thread"
    case .taskLost: "the task continued before its callers were read"
    case .childTask: "the stack belongs to a child task, and its parent could not be read"
    }
  }
}

/// A thread's stack at one moment.
package struct Stack: Hashable, Sendable {
  package var frames: [StackFrame]
  package var end: StackEnd
  package var joinedFrom: Int?
  package var omission: Omission?

  package static let framesOfPlace = 8

  package struct Omission: Hashable, Sendable {
    package var index: Int
    package var count: Int

    package init(index: Int, count: Int) {
      self.index = index
      self.count = count
    }
  }

  package init(frames: [StackFrame], end: StackEnd, joinedFrom: Int? = nil, omission: Omission? = nil) {
    self.frames = frames
    self.end = end
    self.joinedFrom = joinedFrom
    self.omission = omission
  }
}

package enum CaptureOutcome: UInt8, Hashable, Sendable, CaseIterable, BitwiseCopyable {
  case captured = 0
  /// The work item ended before its thread could be sampled.
  case unitOver = 1
  /// The thread had exited or was never known.
  case threadGone = 2
  case noAnswer = 3
  /// The kernel refused to send the signal, or the thread could not run the handler: it had no stack space or no
  /// thread-local storage.
  case notSignalled = 4
  /// Too many earlier requests are pending in threads that were stopped before they answered.
  case requestsStuck = 5
  /// The kernel does not provide the thread's state, and the thread did not run. It was presumably blocked.
  case noState = 7
  /// The thread was blocked, and its stack could not be read from outside. A signal would interrupt the wait.
  case untouchable = 8
  case handlerReplaced = 9
  /// The work waited for a thread.
  case noWorker = 10
  /// The kernel delayed the sampling thread.
  case samplerStopped = 11
  case taskGone = 12
  case sectionLeft = 14

  package var explanation: String {
    switch self {
    case .captured: "captured"
    case .unitOver: "the work ended before its thread was sampled"
    case .threadGone: "the thread had exited"
    case .noAnswer: "the thread did not answer in time"
    case .notSignalled: "the thread could not be sent a signal"
    case .requestsStuck: "earlier requests were never answered"
    case .noState: "the thread did not run, and the kernel does not show its state"
    case .untouchable: "the thread was blocked, and its stack could not be read from outside"
    case .noWorker: "no thread of the work was known"
    case .taskGone: "its task had ended before the work"
    case .sectionLeft: "the function that began the section had returned"
    case .samplerStopped: "the kernel blocked the sampler"
    case .handlerReplaced: "another handler has been installed for SIGPROF"
    }
  }
}

package enum ThreadActivity: Hashable, Sendable, BitwiseCopyable {
  case unknown
  /// On a CPU, or ready to run.
  case running
  /// Blocked in the system call with this number on the process's architecture.
  case inSystemCall(Int32)
  /// Blocked in a system call that the kernel restarted after the process had been stopped. The number is `nil` if
  /// unknown.
  case inRestartedCall(Int32?)
  case blocked

  /// Without a thread: the task was suspended at an `await`.
  case suspended
  /// Without a thread: the task was ready to run.
  case enqueued

  /// Whether the thread waited for anything other than a CPU.
  package var isWaiting: Bool {
    switch self {
    case .inSystemCall, .inRestartedCall, .blocked, .suspended, .enqueued: true
    case .unknown, .running: false
    }
  }

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

  /// The number of the system call in files; -1 if there is none or it is unknown.
  var call: Int32 {
    switch self {
    case .inSystemCall(let call): call
    case .inRestartedCall(let call): call ?? -1
    case .unknown, .running, .blocked, .suspended, .enqueued: -1
    }
  }

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
