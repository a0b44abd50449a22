import CCulpritObserver
import Testing

@Suite struct RestartedCallCodeTests {
  private let padding = [UInt8](repeating: 0x90, count: 40)

  @Test(arguments: [Int32(7), 35, 202, 230]) func findsNumberLoadedBeforeCall(number: Int32) {
    let load = [0xb8] + (0..<4).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    // mov $number, %eax; xor %r8d, %r8d; syscall
    for between: [UInt8] in [[], [0x45, 0x31, 0xc0]] {
      let code = padding + load + between + [0x0f, 0x05]
      #expect(observer_restarted_call_x86_64(code, code.count) == number)
    }
    let code = [0xb8, 7, 0, 0, 0] + load + [0x0f, 0x05]
    #expect(observer_restarted_call_x86_64(code, code.count) == number)
  }

  @Test func rejectsAmbiguousCode() {
    let code: [UInt8] = [0xb8, 35, 0, 0, 0, 0x0f, 0x05]
    for length in 0..<code.count { #expect(observer_restarted_call_x86_64(code, length) == -1) }
    // mov %rdi, %rax; syscall: the number is the argument of syscall(2).
    let indirect: [UInt8] = padding + [0x48, 0x89, 0xf8, 0x0f, 0x05]
    #expect(observer_restarted_call_x86_64(indirect, indirect.count) == -1)
    // The kernel never restarts read(2) in this way.
    let read: [UInt8] = [0xb8, 0, 0, 0, 0, 0x0f, 0x05]
    #expect(observer_restarted_call_x86_64(read, read.count) == -1)
  }

  @Test(arguments: [UInt32(73), 98, 101, 115]) func findsNumberOnAarch64(number: UInt32) {
    func bytes(_ instructions: [UInt32]) -> [UInt8] {
      instructions.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) } }
    }
    let (nothing, call): (UInt32, UInt32) = (0xd503_201f, 0xd400_0001)
    for width: UInt32 in [0xd280_0008, 0x5280_0008] {
      let code = bytes([nothing, width | number << 5, nothing, call])
      #expect(observer_restarted_call_aarch64(code, code.count) == Int32(number))
      #expect(observer_restarted_call_aarch64(code, code.count - 4) == -1)
    }
    // mov x7, #number
    let other = bytes([nothing, 0xd280_0007 | number << 5, nothing, call])
    #expect(observer_restarted_call_aarch64(other, other.count) == -1)
  }

  @Test func recognizesRestartSystemCall() {
    #if arch(arm64)
      #expect(observer_is_restart(128) && !observer_is_restart(219))
    #else
      #expect(observer_is_restart(219) && !observer_is_restart(128))
    #endif
  }
}
