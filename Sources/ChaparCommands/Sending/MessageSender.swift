import ChaparCore

/// The target of `chapar send`: the platforms themselves, or a gateway.
protocol MessageSender: Sendable {
    /// The most messages of one call of ``send(_:report:)``.
    var batchSize: Int { get }

    /// Sends messages and reports a result for each recipient, or one for a message that was refused as a whole.
    ///
    /// Throws when it makes no sense to go on, such as for a key that the gateway refuses.
    func send(_ messages: [NumberedMessage], report: @escaping @Sendable ([SendResult]) -> Void) async throws

    /// Closes the connections.
    func close() async
}

/// A request of the API with the line of the input it came from.
struct NumberedMessage: Sendable {
    var line: Int
    var request: JSONObject
}
