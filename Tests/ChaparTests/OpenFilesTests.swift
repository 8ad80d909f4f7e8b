import Foundation
import Testing

@testable import ChaparCommands

@Suite("The limit of open files")
struct OpenFilesTests {
    @Test("is raised to what the system grants")
    func raised() {
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        #expect(getrlimit(files, &limit) == 0)
        // By one only: other tests of the process need the rest.
        limit.rlim_cur = limit.rlim_max - 1
        #expect(setrlimit(files, &limit) == 0)
        OpenFiles.raiseLimit()
        #expect(getrlimit(files, &limit) == 0)
        #expect(limit.rlim_cur == limit.rlim_max)
        #expect(OpenFiles.most == UInt64(limit.rlim_max))
    }
}
