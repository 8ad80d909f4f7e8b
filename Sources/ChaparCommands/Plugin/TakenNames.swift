/// The names that a plugin and its program cannot have.
enum TakenNames {
    /// The targets of Chapar's manifest.
    ///
    /// The program cannot read the manifest when it runs. `PluginNewTests` compares this list with it, and
    /// `chapar plugin new --here` adds the targets of the new plugin.
    static let targets = [
        "BatchPlugin", "CChaparBuild", "CChaparDocuments", "CChaparJemalloc", "CChaparNghttp2", "CChaparPostgres",
        "CChaparProcess",
        "ChaparAPI", "ChaparAPNs", "ChaparAPNsSimulator", "ChaparAPNsTests", "ChaparAltcraft", "ChaparAltcraftSDK",
        "ChaparAltcraftSimulator", "ChaparAltcraftTests", "ChaparChabok", "ChaparChabokSDK", "ChaparChabokSimulator",
        "ChaparChabokTests", "ChaparClient", "ChaparClientTests", "ChaparCommands", "ChaparComposition",
        "ChaparCompositionTests", "ChaparCore", "ChaparCoreTests", "ChaparDelivery", "ChaparFCM", "ChaparFCMSimulator",
        "ChaparFCMTests", "ChaparFuzz", "ChaparGateway", "ChaparGatewayTests", "ChaparGorush", "ChaparGorushTests",
        "ChaparHMS", "ChaparHMSSimulator", "ChaparHMSTests", "ChaparHTTP", "ChaparHTTPTests",
        "ChaparIDPush", "ChaparIDPushSDK", "ChaparIDPushTests",
        "ChaparJSON", "ChaparJSONTests", "ChaparModules", "ChaparOAuth", "ChaparOAuthSimulator", "ChaparOAuthTests",
        "ChaparObservability", "ChaparObservabilityTests", "ChaparOneSignal", "ChaparOneSignalDevices",
        "ChaparOneSignalSimulator", "ChaparOneSignalTests", "ChaparQueue", "ChaparQueueTests", "ChaparReleaseNotes",
        "ChaparReleaseNotesCommand", "ChaparReleaseNotesSimulator", "ChaparReleaseNotesTests",
        "ChaparRuStore", "ChaparRuStoreSimulator", "ChaparRuStoreTests", "ChaparSandbox", "ChaparSandboxTests",
        "ChaparServer",
        "ChaparService", "ChaparServiceSimulator", "ChaparServiceTests",
        "ChaparSimulation", "ChaparSimulator", "ChaparStoreContract", "ChaparStorePostgres", "ChaparStorePostgresTests",
        "ChaparStoreSQLite", "ChaparStoreSQLiteTests", "ChaparTesting", "ChaparTests", "ChaparWebPush",
        "ChaparWebPushCommand", "ChaparWebPushSimulator", "ChaparWebPushTests", "ComposeInCode", "Embedded",
        "Everyday", "EverydayTests", "FuzzTargets", "FuzzTests", "OneSignalBench", "SeedsExample", "SimulationDisk",
        "SimulationDiskTests", "SimulationHooks", "chapar",
    ]

    /// The products of other packages that Chapar's manifest names.
    static let products = [
        "ArgumentParser", "AsyncHTTPClient", "CoreMetrics", "Crypto", "CryptoExtras", "DequeModule", "GRDB",
        "GRDBSQLite", "HTTPTypes", "Hummingbird", "HummingbirdCore", "InMemoryTracing", "Logging", "MetricsTestKit",
        "NIOCore", "NIOEmbedded", "NIOHTTP1", "NIOHTTPCompression", "NIOPosix", "NIOSSL", "NIOTLS", "ServiceLifecycle",
        "ServiceLifecycleTestKit", "SwiftASN1", "Tracing", "UnixSignals", "X509", "Yams",
    ]

    /// The kinds whose types or members Chapar's own code has.
    ///
    /// `token` makes a `TokenService` of the plugin's, and `known` another `TokenService.known`.
    static let words: Set = [
        "common-backend", "http1", "http2", "known", "named", "push", "scripted", "simulated", "test", "token",
    ]

    /// The reserved words of Swift, with which no factory can be called.
    static let keywords: Set = [
        "as", "associatedtype", "break", "case", "catch", "class", "continue", "default", "defer", "deinit", "do",
        "else", "enum", "extension", "fallthrough", "false", "fileprivate", "for", "func", "guard", "if", "import",
        "in", "init", "inout", "internal", "is", "let", "nil", "operator", "precedencegroup", "private", "protocol",
        "public", "repeat", "rethrows", "return", "self", "static", "struct", "subscript", "super", "switch", "throw",
        "throws", "true", "try", "typealias", "var", "where", "while",
    ]

    /// The modules that come with Swift, and the name that the compiler keeps for itself.
    static let modules = [
        "Darwin", "Dispatch", "Foundation", "Glibc", "Swift", "Synchronization", "Testing", "XCTest", "main",
    ]

    /// Returns whether a target of this name is in the lists of targets, products and modules, without regard to case.
    static func isTarget(_ name: String) -> Bool { lowercased.contains(name.lowercased()) }

    /// All targets, products and modules.
    private static let lowercased = Set((targets + products + modules).map { $0.lowercased() })
}
