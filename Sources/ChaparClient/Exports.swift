// What sends imports this and the platforms: the model, the client, compositions of backends, and its logger.
@_exported public import ChaparComposition
@_exported public import ChaparCore
@_exported public import ChaparHTTP
@_exported public import struct Logging.Logger

#if ObservabilitySupport
    @_exported public import ChaparObservability
#endif
