import CCulpritUnwind

/// Decodes code in address order to find the constant values of registers at calls and jumps. At jump targets, all
/// registers become unknown. Unknown code gives no result.
struct MachineCode {
  enum Constant: Hashable {
    case number(UInt64)
    case address(UInt64)
    /// The contents of memory at an address, a slot of the global offset table.
    case content(UInt64)

    fileprivate func adding(_ addend: Int64) -> Constant? {
      let addend = UInt64(bitPattern: addend)
      return switch self {
      case .number(let number): .number(number &+ addend)
      case .address(let address): .address(address &+ addend)
      case .content: addend == 0 ? self : nil
      }
    }
  }

  struct Transfer {
    var place: UInt64
    var next: UInt64
    var target: UInt64
    var isCall: Bool
    var isLast: Bool
    var registers: [Int32: Constant]
  }

  struct Instruction {
    var place: UInt64
    var next: UInt64
    var operations: Range<Int>
  }

  /// The code, followed by zeros because the decoder reads beyond the last instruction.
  private let bytes: [UInt8]
  private let count: Int
  private let start: UInt64
  private let isArm: Bool

  init(_ bytes: [UInt8], start: UInt64, isArm: Bool) {
    self.bytes = bytes + [UInt8](repeating: 0, count: Int(CODE_BYTES))
    count = bytes.count
    self.start = start
    self.isArm = isArm
  }

  var argumentRegisters: [Int32] { isArm ? Array(0..<8) : [5, 4, 1, 2, 8, 9] }

  /// Registers preserved by calls. Swift's calling conventions use other callee-saved registers for self and errors.
  private var savedRegisters: UInt32 { isArm ? 0x0f18_0000 : 1 << 3 | 1 << 6 | 1 << 14 | 1 << 15 }

  /// Returns all jumps and calls with a fixed target; `nil` for unknown code or computed jumps.
  func transfers() -> [Transfer]? {
    guard let (instructions, operations) = instructions() else { return nil }
    guard !operations.contains(where: { $0.kind == CODE_JUMP_ANYWHERE || $0.kind == CODE_JUMP_GOT }) else { return nil }
    let targets = Set(operations.filter { $0.kind == CODE_BRANCH || $0.kind == CODE_JUMP }.map(\.target))
    var found: [Transfer] = []
    var registers: [Int32: Constant] = [:]
    for instruction in instructions {
      if targets.contains(instruction.place) { registers = [:] }
      for operation in operations[instruction.operations] {
        if [CODE_CALL, CODE_BRANCH, CODE_JUMP].contains(operation.kind), operation.target != 0 {
          found.append(
            Transfer(
              place: instruction.place,
              next: instruction.next,
              target: operation.target,
              isCall: operation.kind == CODE_CALL,
              isLast: !code_goes_on(operation.kind),
              registers: registers
            )
          )
        }
        apply(operation, to: &registers)
      }
    }
    return found
  }

  private func apply(_ operation: code_operation, to registers: inout [Int32: Constant]) {
    switch operation.kind {
    case CODE_SET: registers[operation.to] = registers[operation.from].flatMap { $0.adding(operation.amount) }
    case CODE_SET_NUMBER: registers[operation.to] = .number(UInt64(bitPattern: operation.amount))
    case CODE_SET_FIXED: registers[operation.to] = .address(operation.target)
    case CODE_LOAD_FIXED: registers[operation.to] = .content(operation.target)
    case CODE_LOWER, CODE_ALIGN, CODE_SHIFT_LEFT, CODE_SHIFT_RIGHT, CODE_LOAD: registers[operation.to] = nil
    case CODE_CLOBBER: registers = registers.filter { operation.amount & (1 << Int64($0.key)) == 0 }
    case CODE_STORE, CODE_BRANCH, CODE_PADDING: break
    case let kind where code_is_call(kind):
      registers = registers.filter { savedRegisters & (1 << UInt32($0.key)) != 0 }
    // A system call or the end of execution.
    default: registers = [:]
    }
  }

  func instructions() -> (instructions: [Instruction], operations: [code_operation])? {
    var found: [Instruction] = []
    var all: [code_operation] = []
    var operations = [code_operation](repeating: code_operation(), count: Int(CODE_OPERATIONS))
    var offset = 0
    while offset < count {
      let place = start + UInt64(offset)
      var operationCount: Int32 = 0
      let length = bytes.withUnsafeBufferPointer { bytes in
        // SAFETY: CODE_BYTES bytes follow `offset`, which is less than `count`.
        guard let code = bytes.baseAddress.map({ $0 + offset }) else { return 0 }
        return isArm
          ? cunwind_aarch64.decode(code, place, &operations, &operationCount)
          : cunwind_x86_64.decode(code, place, &operations, &operationCount)
      }
      guard length > 0, length <= count - offset else { return nil }
      let first = all.count
      all += operations.prefix(Int(operationCount))
      found.append(Instruction(place: place, next: place + UInt64(length), operations: first..<all.count))
      offset += length
    }
    return (found, all)
  }
}
