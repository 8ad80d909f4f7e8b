import ChaparCore
import ChaparQueue

/// The receiver of the answer to a call.
struct Reply<Value: Sendable>: Sendable {
    let continuation: CheckedContinuation<Result<Value, StoreError>, Never>

    func succeed(_ value: Value) { continuation.resume(returning: .success(value)) }
    func fail(_ error: StoreError) { continuation.resume(returning: .failure(error)) }
}
