# An image of rouse whose binary is named scheduler, like that of Dapr's scheduler: it then acts as "rouse dapr-scheduler".
#
#   docker build -f packaging/scheduler.Dockerfile -t registry.example/rouse-scheduler:1 .
FROM golang:1.26 AS build
WORKDIR /rouse
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags="-s -w" -o /scheduler ./cmd/rouse

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /scheduler /scheduler
# The same binary as rouse, for the other commands: kubectl exec POD -- /rouse list --namespace dapr.default
COPY --from=build /scheduler /rouse
USER 65532:65532
ENTRYPOINT ["/scheduler"]
