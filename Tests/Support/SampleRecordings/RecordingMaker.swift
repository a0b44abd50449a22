import CulpritStallRecord

struct RecordingMaker {
  indirect enum Function {
    /// A function of the application, with file and line.
    case own(String, String, Int)
    /// A function of a system library, without a line.
    case system(String)
    /// A function of a system library under its symbol's name.
    case call(String)
    /// A function of the application that was inlined into another one.
    case inlined(String, String, Int, into: Function)

    fileprivate var name: String {
      switch self {
      case .own(let name, _, _), .system(let name), .call(let name): name
      case .inlined(let name, _, _, into: let outer): "\(name) in \(outer.name)"
      }
    }
  }

  private let process: ObservedProcess
  private let modules: [Module]
  private var stacks: [Stack] = []
  private var places: [Stack: Int] = [:]
  private var names: [RuntimeAddress: [ResolvedFrame]] = [:]
  private var addresses: [String: UInt64] = [:]
  /// The modules of the application's functions, used in turn.
  var ownModules = [1]
  var samples: [Sample] = []
  /// The samples of lock owners.
  var holders: [HolderSample] = []
  var others: [(thread: ObservedThread, functions: [Function], activity: ThreadActivity)] = []

  init(process: ObservedProcess, modules: [Module]) {
    self.process = process
    self.modules = modules
  }

  /// Adds a sample of `functions`, outermost first; `nil` for a sample without a stack.
  mutating func add(
    _ age: Duration,
    _ functions: [Function]?,
    _ activity: ThreadActivity,
    end: StackEnd = .outermost,
    label: String = "",
    thread: Int32? = nil,
    used: Duration? = nil,
    waitingFor lock: HeldLock? = nil
  ) {
    let place = functions.map { stack($0, end: end) }
    samples.append(Sample(age, place, activity, used: used, label: label, threadID: thread, lock: lock))
  }

  mutating func addHolder(
    _ age: Duration,
    _ thread: ObservedThread,
    of address: UInt64,
    _ functions: [Function],
    _ activity: ThreadActivity,
    waitingFor lock: HeldLock? = nil
  ) {
    let used = activity == .running ? age : .milliseconds(20)
    let sample = Sample(age, stack(functions), activity, used: used, lock: lock)
    holders.append(HolderSample(address: address, thread: thread, isHeld: true, sample: sample))
  }

  mutating func stack(_ functions: [Function], end: StackEnd = .outermost) -> Int {
    let frames = functions.reversed().enumerated()
      .map { place, function -> StackFrame in
        let address = RuntimeAddress(address(of: function))
        return place == 0 ? .programCounter(address) : .returnAddress(RuntimeAddress(address.value + 1))
      }
    let stack = Stack(frames: frames, end: end)
    if let place = places[stack] { return place }
    places[stack] = stacks.count
    stacks.append(stack)
    return stacks.count - 1
  }

  mutating func recording(_ stall: Stall) -> Recording {
    var stall = stall
    stall.samples = samples
    stall.holders = holders
    if !others.isEmpty {
      let threads = others.map { other in
        ThreadSample(other.thread.id, other.thread.name, stack(other.functions), other.activity)
      }
      stall.others = AllThreads(threads: threads, isComplete: true)
    }
    return Recording(process: process, modules: modules, stacks: stacks, stalls: [stall], names: names)
  }

  private mutating func address(of function: Function) -> UInt64 {
    if let known = addresses[function.name] { return known }
    let offset = UInt64(addresses.count + 1) * 0x10
    var module = modules[ownModules[addresses.count % ownModules.count]]
    switch function {
    case .system, .call: module = modules[2]
    case .own, .inlined: break
    }
    let address = module.mappings[0].start.value + offset
    addresses[function.name] = address
    names[RuntimeAddress(address)] = frames(function, module, offset + module.mappings[0].fileOffset)
    return address
  }

  private func frames(_ function: Function, _ module: Module, _ offset: UInt64) -> [ResolvedFrame] {
    func frame(_ name: String, _ location: SourceLocation?, isInlined: Bool) -> ResolvedFrame {
      let (path, raw) = (module.path, "raw_" + name)
      return ResolvedFrame(name, raw: raw, in: path, start: offset, at: offset, location, isInlined: isInlined)
    }
    switch function {
    case .system(let name): return [frame(name, nil, isInlined: false)]
    case .call(let name):
      var call = frame(name, nil, isInlined: false)
      call.rawName = name
      return [call]
    case .own(let name, let file, let line):
      let path = file.hasPrefix("/") ? file : "/src/shop/Sources/\(file)"
      return [frame(name, SourceLocation(file: path, line: line, column: 5), isInlined: false)]
    case .inlined(let name, let file, let line, into: let outer):
      let place = SourceLocation(file: "/src/shop/Sources/\(file)", line: line, column: 9)
      return [frame(name, place, isInlined: true)] + frames(outer, module, offset)
    }
  }
}
