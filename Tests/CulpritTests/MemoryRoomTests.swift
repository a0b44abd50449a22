import Testing

@testable import Culprit

@Suite struct MemoryRoomTests {
  @Test func refusesReportsBeyondMemoryLimit() {
    let left: UInt64 = 100 << 20
    #expect(MemoryRoom.obstacle(names: 68 << 20, left: left) == nil)
    #expect(MemoryRoom.obstacle(names: 8 << 20, file: 20 << 20, left: left) == nil)
    #expect(
      MemoryRoom.obstacle(names: 8 << 20, file: 21 << 20, left: left)
        == "104857600 bytes are left of RLIMIT_DATA or RLIMIT_AS, and a report may take 108003328"
    )
    #expect(MemoryRoom.obstacle(names: .max, file: 64 << 20, left: left) != nil)
  }
}
