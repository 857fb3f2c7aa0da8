module peer

go 1.27
